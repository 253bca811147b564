"""The binary funnel: two private symbols, any number of public ones."""

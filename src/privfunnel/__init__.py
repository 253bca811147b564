"""privfunnel: privacy funnels, proved optimal, from a table to a release."""

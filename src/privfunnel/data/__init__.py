"""From rows to counts: engines and tables, classes of symbols, packaged instances, and what few rows say."""

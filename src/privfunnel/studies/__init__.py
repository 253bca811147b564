"""Experiments: every method on one table, the paper's figures again, and what pure luck gives."""

"""Deterministic mappings by merging public symbols: greedy, submodular, and the best of all partitions."""

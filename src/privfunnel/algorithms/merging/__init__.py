"""Deterministic mappings by merging public symbols: greedy, submodular, and the best of all partitions.

*Solves* the least leakage of mappings X → Y at a disclosure; *how*: pairs merged while that pays (:mod:`.greedy`,
:mod:`.submodular`), all partitions of a few symbols (:mod:`.deterministic`). *Proves* nothing of random mappings, which
leak less. *Costs* O(M³) for the greedy ones; the number of partitions for the exhaustive one.
"""

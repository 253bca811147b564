"""Column generation over posteriors with exact pricing: ``plain`` for who knows nothing, ``general`` for everyone else.

They are two on purpose: the general one is two to three times slower on plain tables, and large ones it cannot prove.
"""

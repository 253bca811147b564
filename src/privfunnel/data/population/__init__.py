"""From rows to the population they come from: bounds that hold with a stated confidence, whatever the population.

* :mod:`.bounds` has the bounds themselves, on leakage, disclosure, lift and guesses, and how many outputs rows can
  guarantee,
* :mod:`.tilting`, :mod:`.ball` and :mod:`.confidence_limits` are the methods behind them, each with its proof,
* :mod:`.robust` has worst-case guarantees for every mechanism at once,
* :mod:`.intervals` the exact limits that they share.
"""

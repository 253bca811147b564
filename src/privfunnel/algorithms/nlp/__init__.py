"""The funnel as a nonlinear program in p(y|x), by general-purpose solvers from many starts.

*Solves* the least leakage at a disclosure; *how*: objective and derivatives in :mod:`.program`, starts in
:mod:`.starts`, steps by SciPy (:mod:`.slsqp`) or IPOPT (:mod:`.ipopt`). *Proves* nothing: local optima. *Costs* M·N
variables; for comparisons on small tables.
"""

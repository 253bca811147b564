"""The binary funnel: two private symbols, any number of public ones.

*Solves* a disclosure or a budget (:mod:`.solver`); *how*: symbols sorted by p(s=1|x) (:mod:`.table`), at each slope one
staircase of pairs (:mod:`.staircases`, :mod:`.staircase_steps`), slopes until chord and tangent meet (:mod:`.funnel`),
releases of pairs (:mod:`.pairing`, :mod:`.expansion`). *Proves* the optimum by pairs (:mod:`.proof`), what is free in
closed form (:mod:`.transport`), with published columns :mod:`.stratified`. *Costs* O(M log M) a slope, some ten slopes.
"""

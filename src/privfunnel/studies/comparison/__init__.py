"""An honest comparison: every method on one table, at the same disclosures, with the same time, judged by one proof.

    >>> import privfunnel as pf
    >>> problem = pf.instances.load("synthetic-uniform")
    >>> result = pf.compare(problem, solvers=["greedy", "aem"], points=6, time_limit=10.0)
    >>> result["greedy"].name
    'greedy'

Solvers run in parallel processes through joblib, so ``joblib.parallel_config(backend="dask")`` (or ``"ray"``) moves a
comparison to a cluster unchanged.
"""

from privfunnel.studies.comparison.entrants import DEEP, labels, lineup
from privfunnel.studies.comparison.neighbours import Neighbour
from privfunnel.studies.comparison.result import Comparison, Entry
from privfunnel.studies.comparison.run import compare

__all__ = ["DEEP", "Comparison", "Entry", "Neighbour", "compare", "labels", "lineup"]

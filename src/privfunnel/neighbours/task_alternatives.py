"""What one would do otherwise where the release is for a task: drop or coarsen columns, and leak more for it.

Both are deterministic releases X' = f(X). Of those that keep as much of the task, I(U;X') ≥ R, the one is sought that
leaks least; :mod:`privfunnel.neighbours.alternatives` has the ladders of coarser and coarser columns.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from privfunnel.data.engines import Alphabet
from privfunnel.infra.storage import Document
from privfunnel.measures import entropy, nats_per
from privfunnel.model.problem import Problem
from privfunnel.neighbours.alternatives import COARSENING, DROPPING, Lattice, alphabet_of, merged


@dataclass(frozen=True)
class TaskAlternative:
    """The release of a simpler kind that leaks least and is as good for the task; nats.

    Attributes:
        method: ``"dropping columns"`` or ``"coarser categories"``.
        tasks: The names of the tasks.
        utility: Σ ω I(U;X') of what it releases; ``utility_ceiling`` that of X.
        leakage: I(S;X'); ``leakage_ceiling`` I(S;X).
        disclosure: H(X').
        done: What happened to each column that is not released as it is.
        exact: No release of the kind leaks less; otherwise none was found.
        tried: How many releases were examined.
    """

    method: str
    tasks: tuple[str, ...]
    utility: float
    utility_ceiling: float
    leakage: float
    leakage_ceiling: float
    disclosure: float
    done: dict[str, str]
    exact: bool
    tried: int

    @property
    def utility_share(self) -> float:
        """Share of I(U;X) that is kept."""
        return self.utility / self.utility_ceiling

    @property
    def leakage_share(self) -> float:
        """Share of I(S;X) that leaks; 0 where there is nothing to leak."""
        return self.leakage / self.leakage_ceiling if self.leakage_ceiling > 0.0 else 0.0

    def words(self, units: str = "nats", *, guarded: bool = False) -> str:
        """The alternative as a sentence, in bits or nats.

        Args:
            units: The unit.
            guarded: The release was designed for other attackers, or another measure: say whose leakage this is.
        """
        how = "; ".join(f"{name}: {what}" for name, what in self.done.items()) or "everything as it is"
        best = "at best" if self.exact else f"as far as was searched ({self.tried} releases)"
        much = f"{self.leakage / nats_per(units):.6f} {units}, {100 * self.leakage_share:.1f} % of I(S;X),"
        whose = " to who knows nothing" if guarded else ""
        return (
            f"By {self.method} one would leak I(S;Y) = {much}{whose} {best} to keep as much of "
            f"{' and '.join(self.tasks)} ({how})."
        )

    def to_dict(self) -> Document:
        """JSON-ready, in nats."""
        shares = {"utility_share": self.utility_share, "leakage_share": self.leakage_share}
        return asdict(self) | {"tasks": list(self.tasks), **shares, "words": self.words()}


def instead_for_task(
    problem: Problem, utility: float, public: Alphabet | None = None
) -> tuple[TaskAlternative, TaskAlternative]:
    """Dropping columns and coarser categories, each as good for the task as a release that keeps ``utility`` nats.

    Args:
        problem: A problem with a task.
        utility: What they keep at least, Σ ω I(U;X'), in nats.
        public: Its public symbols, which know the order of bins; read from the problem's labels by default.

    Raises:
        InvalidInputError: The problem has no task.
    """
    public = alphabet_of(problem) if public is None else public
    drop, coarse = (_best(problem, utility, public, kind) for kind in (DROPPING, COARSENING))
    if not coarse.exact and drop.leakage < coarse.leakage:  # to drop is to coarsen, too
        coarse = replace(drop, method=COARSENING, exact=False, tried=drop.tried + coarse.tried)
    return drop, coarse


def _best(problem: Problem, utility: float, public: Alphabet, method: str) -> TaskAlternative:
    tasks = problem.required_tasks()
    lattice = Lattice(public, problem.p_sx, method, tasks)
    levels, exact = lattice.least_leaking(min(utility, tasks.ceiling))
    found, leaked = lattice.weigh(levels)
    return TaskAlternative(
        method=method,
        tasks=tasks.names,
        utility=min(found, tasks.ceiling),
        utility_ceiling=tasks.ceiling,
        leakage=min(leaked, problem.leakage_ceiling),
        leakage_ceiling=problem.leakage_ceiling,
        disclosure=float(entropy(merged(problem.p_x[None], lattice.place(levels))[0])),
        done=lattice.done(levels),
        exact=exact,
        tried=lattice.tried,
    )

"""The panels of the figures, their settings, and the runs behind them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from privfunnel._version import __version__
from privfunnel.algorithms import registry
from privfunnel.algorithms.deadline import cpu_clock
from privfunnel.data import instances
from privfunnel.infra.storage import Document
from privfunnel.measures import Array
from privfunnel.model.envelope import Envelope
from privfunnel.model.problem import Point, Problem
from privfunnel.solving.ends import end_of_curve

AEM = "AEM"
DRS = "DRS, authors' settings"
DRS_TUNED = "DRS, tuned settings"
DRS_REPAIRED = "DRS, repaired"

#: Every method of a panel, AEM first.
ALL_SERIES = (AEM, DRS, DRS_TUNED, DRS_REPAIRED)

#: Found by trying penalties 4 to 8192 with steps 1e-4 to 0.2 on the synthetic and heart-failure problems: the authors'
#: iteration with a smaller penalty and a longer step, their product still about 1.
TUNED = {"penalty": 128.0, "step": 8e-3}


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    Attributes:
        key: Name of its file.
        title: What it shows.
        instance: The instance.
        perturbation: How it is perturbed (by 1e-3), or None.
        outputs: Number of outputs N for AEM; None means M + 1.
    """

    key: str
    title: str
    instance: str
    perturbation: str | None = None
    outputs: int | None = None

    def problem(self) -> Problem:
        """The problem of the panel."""
        return instances.load(self.instance, perturbation=self.perturbation)


PANELS = (
    Panel("synthetic-uniform", "Synthetic, uniform p(x)", "synthetic-uniform", outputs=4),
    Panel("synthetic-skewed", "Synthetic, p(x) = (0.1, 0.3, 0.6)", "synthetic-skewed", outputs=4),
    Panel(
        "heart-failure-probabilities", "Heart failure, probabilities + 1e-3", "heart-failure", "probabilities"
    ),
    Panel(
        "census-income-probabilities", "Census income, probabilities + 1e-3", "census-income", "probabilities"
    ),
    Panel("heart-failure-counts", "Heart failure, counts + 1e-3", "heart-failure", "counts"),
    Panel("census-income-counts", "Census income, counts + 1e-3", "census-income", "counts"),
)


@dataclass(frozen=True)
class Plan:
    """How much work to spend."""

    quick: bool = False
    seed: int = 0

    def points(self, panel: Panel) -> int:
        """Number of disclosures, uniform in (0, H(X)]."""
        return 10 if self.quick and panel.instance == "census-income" else 20

    def runs(self, panel: Panel) -> dict[str, tuple[str, dict[str, Any]]]:
        """Name of each series to solver and options."""
        large = panel.instance == "census-income"
        short = self.quick and large
        aem = {
            "restarts": 4 if short else 30,
            "max_steps": 100 if short else 500,
            "outputs": panel.outputs,
            "accelerate": False,
        }
        limit = (4.0 if large else 2.5) if self.quick else (60.0 if large else 150.0)
        drs = {"time_limit": limit}
        return {
            AEM: ("aem", aem),
            DRS: ("drs", drs),
            DRS_TUNED: ("drs", {**drs, **TUNED}),
            DRS_REPAIRED: ("drs-repaired", drs),
        }

    def settings(self, panel: Panel) -> Document:
        """All that a panel's numbers depend on: a file with other settings is computed again."""
        runs = {name: [solver, options] for name, (solver, options) in self.runs(panel).items()}
        settings = {"privfunnel": __version__, "seed": self.seed, "points": self.points(panel), "runs": runs}
        as_stored: Document = json.loads(json.dumps(settings))  # tuples become lists, as in the file
        return as_stored


@dataclass(frozen=True)
class Run:
    """A point that a method reached, its numbers recomputed from its channel; nats."""

    disclosure: float
    leakage: float
    status: str
    steps: int
    requested: float | None = None


@dataclass(frozen=True)
class Series:
    """All points of one method on one panel, with the time it took (wall clock and CPU seconds)."""

    name: str
    points: tuple[Run, ...]
    seconds: float
    cpu_seconds: float
    message: str = ""

    @property
    def disclosure(self) -> Array:
        """I(X;Y) of each point."""
        return np.array([point.disclosure for point in self.points])

    @property
    def leakage(self) -> Array:
        """I(S;Y) of each point."""
        return np.array([point.leakage for point in self.points])

    @property
    def own(self) -> tuple[Run, ...]:
        """The points that an iteration reached: without the two ends that need none."""
        return tuple(point for point in self.points if point.steps > 0)

    def binned(self) -> Array:
        """Best point in each bin of disclosure, as the authors of DRS draw their curve; shape (points, 2)."""
        best: dict[int, Run] = {}
        for point in self.points:
            # The authors round I(X;Y) to one decimal and keep the best run of each: bins of this width, in nats.
            key = round(point.disclosure / 0.1)
            if key not in best or point.leakage < best[key].leakage:
                best[key] = point
        return np.array([(best[k].disclosure, best[k].leakage) for k in sorted(best)]).reshape(-1, 2)

    def shared(self, disclosure: Array, end: Point) -> Array:
        """The same with time sharing: the lower convex envelope of the points, (0, 0) and ``end`` (X itself)."""
        points = [(0.0, 0.0), *((point.disclosure, point.leakage) for point in self.points), end]
        return Envelope.of(points).value(disclosure)


@dataclass(frozen=True)
class PanelResult:
    """What was found on a panel."""

    panel: Panel
    disclosure_ceiling: float
    leakage_ceiling: float
    h_x_given_s: float
    series: tuple[Series, ...]

    @property
    def end(self) -> Point:
        """The theoretical end point (H(X), I(S;X))."""
        return Point(self.disclosure_ceiling, self.leakage_ceiling)

    def shared(self, name: str, disclosure: Array) -> Array:
        """Leakage of a method at any disclosure, with time sharing between its points and the two ends."""
        return self[name].shared(disclosure, self.end)

    def __getitem__(self, name: str) -> Series:
        """The series of that name."""
        return next(series for series in self.series if series.name == name)

    def to_dict(self) -> Document:
        """A JSON-ready form."""
        data = asdict(self)
        del data["panel"]
        return data

    @classmethod
    def from_dict(cls, panel: Panel, data: Document) -> PanelResult:
        """Read back what :meth:`to_dict` wrote."""
        series = tuple(
            Series(**{**s, "points": tuple(Run(**p) for p in s["points"])}) for s in data["series"]
        )
        return cls(panel=panel, **{**data, "series": series})


def compute(panel: Panel, plan: Plan, tell: Callable[[str], None] = lambda _: None) -> PanelResult:
    """Run every method of a panel."""
    problem = panel.problem()
    ceiling = problem.disclosure_ceiling
    inner = [float(r) for r in np.linspace(0.0, ceiling, plan.points(panel) + 1)[1:-1]]
    end = end_of_curve(problem, ceiling)
    assert end is not None
    series = []
    for name, (solver, options) in plan.runs(panel).items():
        tell(f"{panel.title}: {name} …")
        chosen = registry.get(solver, **options)
        wall, cpu = time.perf_counter(), time.process_time()
        # AEM answers each R; DRS sweeps its multiplier and lands where it lands.
        with cpu_clock():  # a run beside other work gives DRS no less than a run alone
            answers = list(chosen.trace(problem, inner, seed=plan.seed))
        asked: list[float | None] = [None] * len(answers) if chosen.sweeps else list(inner)
        if not chosen.sweeps:  # a sweep has to get to the end by itself
            answers.append(end)
            asked.append(ceiling)
        points = []
        for r, answer in zip(asked, answers, strict=True):
            point = problem.evaluate(answer.channel)
            points.append(Run(point.disclosure, point.leakage, answer.status.value, answer.steps, r))
        series.append(
            Series(
                name=name,
                points=tuple(points),
                seconds=time.perf_counter() - wall,
                cpu_seconds=time.process_time() - cpu,
                message=next((answer.message for answer in answers if answer.message), ""),
            )
        )
    return PanelResult(panel, ceiling, problem.leakage_ceiling, problem.h_x_given_s, tuple(series))

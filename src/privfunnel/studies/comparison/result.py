"""What a comparison found: one entry a solver, all judged by the same proved bound."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privfunnel.errors import InvalidInputError, need
from privfunnel.infra.storage import PRIVATE, AnyPath, Document, Stored, write_text
from privfunnel.measures import Array
from privfunnel.model.problem import Point, Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

#: Within this many nats of the least leakage found a method counts as best: the default gap of the proofs.
TIE = 1e-6
#: A relative excess needs a bound to be relative to: it is told where the proved bound is above this, in nats.
POSITIVE = 1e-4


@dataclass(frozen=True, kw_only=True, eq=False)
class Entry:
    """One solver's part; arrays are over the comparison's disclosures, in nats, NaN where there is no answer.

    Attributes:
        label: What it is called in the comparison.
        name: The solver's name in the registry; ``"neighbour"`` for methods made for other problems.
        options: Its options.
        leakage: Leakage of the solver's own answers; methods that sweep a multiplier answer by time sharing, those for
            other problems with the member of their channels that leaks least among those that disclose enough.
        shared: Leakage when its answers are time-shared, and with nothing and X itself.
        points: Every point its answers reach.
        runs: Runs it counted, 0 where it does not count.
        converged: Share of them that met its own convergence test, NaN where it has none.
        kkt_residual: Median KKT residual of its answers in nats, whatever it claims itself.
        seconds: Wall-clock time.
        cpu_seconds: CPU time of its process.
        message: What it had to say, for example why it has no answer.
        process: Id of the process it ran in.
    """

    label: str
    name: str
    options: dict[str, Any]
    leakage: Array
    shared: Array
    points: tuple[Point, ...]
    runs: int
    converged: float
    kkt_residual: float
    seconds: float
    cpu_seconds: float
    message: str
    process: int = 0

    @property
    def answered(self) -> bool:
        """Whether it answered at all."""
        return bool(np.isfinite(self.shared).any())


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Stored):
    """Solvers on one table, at the same disclosures, with the same time.

    Attributes:
        problem: The problem.
        disclosure: The disclosures, shape (points,), in nats.
        lower_bound: Proved lower bound of L(R) at each, shape (points,), in nats.
        band_disclosure: Finer disclosures from 0 to H(X), in nats.
        band_lower_bound: Proved lower bound of L(R) at each of those, in nats.
        entries: One a solver.
        time_limit: Seconds each solver had.
        seed: Seed of the runs.
    """

    schema: ClassVar[str] = "privfunnel/comparison"

    problem: Problem
    disclosure: Array
    lower_bound: Array
    band_disclosure: Array
    band_lower_bound: Array
    entries: tuple[Entry, ...]
    time_limit: float
    seed: int

    def __getitem__(self, label: str) -> Entry:
        """The entry of that label."""
        for entry in self.entries:
            if entry.label == label:
                return entry
        labels = ", ".join(entry.label for entry in self.entries)
        raise InvalidInputError(f"no solver {label!r} took part: choose one of {labels}")

    @property
    def best(self) -> Array:
        """Least leakage that any solver's own answers reach at each disclosure, in nats."""
        table = np.array([entry.leakage for entry in self.entries])
        filled = np.where(np.isfinite(table), table, np.inf).min(axis=0)
        return np.where(np.isfinite(filled), filled, np.nan)

    def summary(self) -> list[Document]:
        """One row a solver: excess over the proved bound, share of R where it is best, time, convergence rate."""
        best, positive = self.best, self.lower_bound > POSITIVE
        rows = []
        for entry in self.entries:
            own, shared = entry.leakage - self.lower_bound, entry.shared - self.lower_bound
            relative = own[positive] / self.lower_bound[positive]
            rows.append(
                {
                    "solver": entry.label,
                    "answered": int(np.isfinite(entry.leakage).sum()),
                    "mean_excess": _mean(own),
                    "mean_excess_shared": _mean(shared),
                    "median_relative_excess": _median(relative),
                    "share_best": float(np.mean(np.nan_to_num(entry.leakage, nan=np.inf) <= best + TIE)),
                    "seconds": entry.seconds,
                    "cpu_seconds": entry.cpu_seconds,
                    "runs": entry.runs,
                    "converged": _finite(entry.converged),
                    "kkt_residual": _finite(entry.kkt_residual),
                    "message": entry.message,
                }
            )
        return rows

    def rows(self) -> list[dict[str, Any]]:
        """One row a solver and disclosure, in nats; None where there is no answer."""
        ceiling = self.problem.disclosure_ceiling
        rows = []
        for entry in self.entries:
            for i, disclosure in enumerate(self.disclosure):
                bound = float(self.lower_bound[i])
                leakage = float(entry.leakage[i])  # NaN where there is no release
                rows.append(
                    {
                        "solver": entry.label,
                        "disclosure": float(disclosure),
                        "disclosure_share": float(disclosure) / ceiling,
                        "leakage": _finite(leakage),
                        "leakage_shared": _finite(float(entry.shared[i])),
                        "lower_bound": bound,
                        "excess": _finite(leakage - bound),
                        "relative_excess": _finite(leakage / bound - 1.0) if bound > POSITIVE else None,
                        "best": bool(leakage <= self.best[i] + TIE),
                    }
                )
        return rows

    def to_frame(self) -> DataFrame:
        """:meth:`rows` as a pandas frame (needs pandas)."""
        frame: DataFrame = need("pandas", extra="tables").DataFrame(self.rows())
        return frame

    def plot(self, *, units: str = "nats", title: str | None = None) -> Figure:
        """All curves with the certified band, and each one's excess over the proved bound (needs matplotlib)."""
        from privfunnel.studies.comparison.figure import draw

        return draw(self, units=units, title=title)

    def to_csv(self) -> str:
        """:meth:`rows` as CSV, in nats."""
        file = io.StringIO()
        rows = self.rows()
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return file.getvalue()

    def to_dict(self) -> Document:
        """A JSON-ready form that :meth:`from_dict` reads back; channels are not kept."""
        return {
            **self.heading(),
            "units": "nats",
            "time_limit": self.time_limit,
            "seed": self.seed,
            "problem": self.problem.to_dict(),
            "disclosure": self.disclosure.tolist(),
            "lower_bound": self.lower_bound.tolist(),
            "band_disclosure": self.band_disclosure.tolist(),
            "band_lower_bound": self.band_lower_bound.tolist(),
            "summary": self.summary(),
            "entries": [
                {
                    "label": entry.label,
                    "name": entry.name,
                    "options": entry.options,
                    "leakage": [_finite(value) for value in entry.leakage.tolist()],
                    "shared": [_finite(value) for value in entry.shared.tolist()],
                    "points": [list(point) for point in entry.points],
                    "runs": entry.runs,
                    "converged": _finite(entry.converged),
                    "kkt_residual": _finite(entry.kkt_residual),
                    "seconds": entry.seconds,
                    "cpu_seconds": entry.cpu_seconds,
                    "message": entry.message,
                }
                for entry in self.entries
            ],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Comparison:
        """Read back what :meth:`to_dict` wrote."""
        with cls.reading(data):
            return cls(
                problem=Problem.from_dict(data["problem"]),
                disclosure=np.array(data["disclosure"], dtype=np.float64),
                lower_bound=np.array(data["lower_bound"], dtype=np.float64),
                band_disclosure=np.array(data["band_disclosure"], dtype=np.float64),
                band_lower_bound=np.array(data["band_lower_bound"], dtype=np.float64),
                entries=tuple(_entry(item) for item in data["entries"]),
                time_limit=float(data["time_limit"]),
                seed=int(data["seed"]),
            )

    def save(self, path: AnyPath) -> None:
        """Write the comparison: ``.json`` (can be read back) or ``.csv`` (one row a solver and disclosure)."""
        suffix = Path(path).suffix
        if suffix == ".json":
            super().save(path)
        elif suffix == ".csv":
            write_text(path, self.to_csv(), mode=PRIVATE)
        else:
            raise InvalidInputError(f"cannot write {str(path)!r}: use a name that ends in .json or .csv")


def _entry(item: Document) -> Entry:
    return Entry(
        label=str(item["label"]),
        name=str(item["name"]),
        options=dict(item["options"]),
        leakage=_array(item["leakage"]),
        shared=_array(item["shared"]),
        points=tuple(Point(*map(float, point)) for point in item["points"]),
        runs=int(item["runs"]),
        converged=float(_array([item["converged"]])[0]),
        kkt_residual=float(_array([item["kkt_residual"]])[0]),
        seconds=float(item["seconds"]),
        cpu_seconds=float(item["cpu_seconds"]),
        message=str(item["message"]),
    )


def _array(values: list[float | None]) -> Array:
    """Numbers from JSON, None read as NaN."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _mean(values: Array) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None


def _median(values: Array) -> float | None:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else None

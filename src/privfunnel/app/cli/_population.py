"""What a command says of people who are not in its table: by default where the rows of the table are few."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic, process_time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from privfunnel.errors import InvalidInputError, PrivFunnelError

if TYPE_CHECKING:
    from privfunnel.app.cli._source import NamedProblem
    from privfunnel.data.population.views import View
    from privfunnel.data.sizes import Size
    from privfunnel.data.tables import Counts
    from privfunnel.model.problem import Problem

Function = TypeVar("Function", bound=Callable[..., Any])
Found = TypeVar("Found")

#: Said of a table that has no rows.
PROBABILITIES = "The table holds probabilities, not rows: it is taken as the population itself."
#: Said of releases for a task, with a distortion, after others, or against who knows something.
OTHERWISE = "What holds for people like these is found for plain releases only: audit this one with other people's rows"
#: Said of score classes of a table that is taken as the population.
REGISTER_CLASSES = (
    "score classes estimate what a wide table says of the people behind it, and a register has no others: leave "
    "--classes or --view register out"
)
#: Said where plain Python would take too long for what compiled kernels may do at once.
FASTER = " (sooner with compiled kernels: pip install 'privfunnel[fast]')"
#: Said of an estimate from one split, where plain Python would take too long for more.
ONE_SPLIT = (
    "The estimate is of one random split of the rows; on small tables it is the steadier average of four with compiled "
    "kernels: pip install 'privfunnel[fast]'."
)
#: Of how many points of a curve splits after the first make designs.
NODES = 6


def view_option(function: Function) -> Function:
    """``--view register|sample``: what a table is."""
    return click.option(
        "--view",
        type=click.Choice(["register", "sample"]),
        help="What the table is: the population itself, or a sample, of which designs on one half of the rows, judged "
        "by the other half, say what holds for people like these. By default a sample where its rows are few.",
    )(function)


class Again(NamedTuple):
    """How to design again: on how many random ``splits`` of the rows, within how many ``seconds`` on each part."""

    splits: int
    seconds: float | None


@dataclass
class Rows:
    """The rows of a command's table, and whom its numbers are about.

    Attributes:
        source: What the user named, and what was ``opened``.
        opened: The problem with the counts behind it.
        view: What the user said the table is, or None.
        time_limit: Seconds for all numbers together, or None.
        points: How many designs the numbers about the rows take.
        seconds: Seconds that they took, by the clock; ``again`` those that the same would take again, with all kernels
            compiled, and ``work`` of these the processor's.
        interrupted: Whether Ctrl-C came while those about other people were to be found.
    """

    source: str
    opened: NamedProblem
    view: str | None
    time_limit: float | None = None
    points: int = 1
    seconds: float = field(default=0.0, init=False)
    again: float = field(default=0.0, init=False)
    work: float = field(default=0.0, init=False)
    interrupted: bool = field(default=False, init=False)

    @property
    def n(self) -> float | None:
        """Independent pieces of evidence: rows, persons or clusters; None where their number is not known."""
        pieces = self.opened.pieces
        return self.opened.problem.n if pieces is None else pieces

    @property
    def scored(self) -> bool:
        """Whether the design has score classes."""
        return self.opened.counts is not None and self.opened.counts.scores is not None

    @property
    def taken(self) -> View:
        """What the table is taken as."""
        from privfunnel.data.population.views import view_of

        problem = self.opened.problem
        if self.scored:
            if self.view == "register":
                raise InvalidInputError(REGISTER_CLASSES)
            return "sample"
        return view_of(self.view, (problem.n_s, problem.n_x), self.n, problem.leakage_ceiling)

    @property
    def own_limit(self) -> float | None:
        """Seconds for the numbers about the rows: who asks for the others too shares the time between them."""
        return self.time_limit and (0.5 if self.view == "sample" else 1.0) * self.time_limit

    @property
    def part_limit(self) -> float | None:
        """Seconds for the designs on one part of the rows: what the numbers about all of them have left."""
        if self.time_limit is None:
            return None
        from privfunnel.audit.cross_fit import FOLDS

        # Share of a time limit that designs on parts of the rows have at least, where they were asked for.
        left = max(self.time_limit - self.seconds, 0.1 * self.time_limit)
        return left / (FOLDS * max(self.splits, 1))

    @cached_property
    def size(self) -> Size:
        """How large the problem is, of a table of counts by these: classes are told apart in whole numbers only."""
        from privfunnel.data.sizes import size_of

        counts, problem = self.opened.counts, self.opened.problem
        if counts is not None:
            return counts.size
        return size_of(problem.p_sx if problem.counts is None else problem.counts)

    @cached_property
    def splits(self) -> int:
        """How many times the rows are split at random; 0 where even once is expected to take long."""
        from privfunnel.audit.cross_fit import affordable_splits

        return affordable_splits(*self._expected)

    @property
    def _expected(self) -> tuple[float, float]:
        """Seconds that designs on one part of the rows are expected to take, in the first split and in further ones."""
        each = self.size.seconds
        return each * self.points, each * min(self.points, NODES)

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Measure what the numbers about the rows take."""
        from privfunnel.infra.jit import compiling

        begun, worked = monotonic(), process_time()
        with compiling() as compiled:
            yield
        self.seconds = monotonic() - begun
        self.again = max(self.seconds - compiled(), 0.0)
        self.work = max(process_time() - worked - compiled(), 0.0)

    def independent(self) -> Problem | Counts:
        """The problem of rows that are equal draws: all, one of each person or cluster, or some by their weights.

        For score classes, which each design makes of its own rows, the counts.
        """
        counts = self.opened.counts
        if counts is None or not counts.unequal:
            return counts if self.scored and counts is not None else self.opened.problem
        import numpy as np

        from privfunnel.audit.persons import independent, rows_of

        found = independent(counts, rows_of(self.source, counts), np.random.default_rng(0))
        return found if self.scored else found.problem()

    def without(self, why: str) -> str:
        """Say whom the numbers are about where nothing is found out about others; empty where there are none."""
        if self.n is None and self.view is None:
            return PROBABILITIES
        if self.taken == "register":
            return ""
        problem = self.opened.problem
        if self.scored:
            return f"These numbers are what the score classes promise for the {self.n:.0f} {self.opened.kind}. {why}."
        return (
            f"These numbers are about the {self.n:.0f} {self.opened.kind}, few for {problem.n_s} × {problem.n_x} "
            f"cells. {why}; --view register says that there are no others."
        )

    def beyond(self, design: Callable[[Problem | Counts, Again], Found]) -> tuple[Found | None, str]:
        """What designs on parts of the rows leak in the population, where the table is a sample.

        Nothing that nobody asked for is expected to take longer than a few seconds, fails, or takes more time than the
        limit leaves.

        Args:
            design: Designs again on parts of these rows, as it is told.

        Returns:
            What was found, or None; and what to say of it, or in its place.
        """
        if (said := self._left_out()) is not None:
            return None, said
        try:
            return design(self.independent(), Again(max(self.splits, 1), self.part_limit)), self._remark()
        except KeyboardInterrupt:
            self.interrupted = True
            return None, self.without("What holds for people like these was not found before the interrupt")
        except PrivFunnelError as error:
            if self.view == "sample":
                raise
            return None, self.without(f"For people like these no design could be made ({error})")

    def end(self) -> None:
        """End the command as interrupted, where it was."""
        if self.interrupted:
            click.get_current_context().exit(128 + signal.SIGINT)

    def _remark(self) -> str:
        """What to say of an estimate that plain Python is too slow to make steadier; empty for any other."""
        from privfunnel.audit.cross_fit import SPLITS

        return ONE_SPLIT if self.size.plain and not self.scored and self.splits < SPLITS else ""

    def _left_out(self) -> str | None:
        """Why nothing is found out about people like these; None where it is."""
        from privfunnel.audit.cross_fit import FOLDS, LEAST_ROWS, unasked_splits

        if self.view == "sample":
            return None
        if self.taken == "register":
            return self.without("")
        if self.scored:
            return self.without(
                "What rows show that had no part in a design is said by --view sample, or solve --holdout"
            )
        counts = self.opened.problem.counts if self.opened.counts is None else self.opened.counts.n
        if counts is None:
            return self.without("What holds for people like these takes the rows themselves, or their counts")
        if (self.n or 0.0) < LEAST_ROWS:
            return self.without("So few say nothing about people like these")
        longer = FOLDS * self.again
        late = self.time_limit is not None and self.seconds + longer > self.time_limit
        if late or not unasked_splits(self.n or 0.0, *self._expected, work=self.work):
            return self.without(
                "What holds for people like these takes designing again on parts of them, which --view sample does"
                + FASTER * self.size.plain
            )
        return None

"""From labels to a proved release: solve on cells with more and more labels until value and bound meet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from privfunnel import measures
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.task.barrier import ELASTIC, Outcome, Program, minimise
from privfunnel.algorithms.task.cover import Cover
from privfunnel.algorithms.task.labels import (
    Boxes,
    Multipliers,
    clipped,
    first_labels,
    losses,
    on_a_line,
    starts,
)
from privfunnel.algorithms.task.plan import PLAN
from privfunnel.algorithms.task.shaping import shaped
from privfunnel.certificate import Certificate, TaskBody
from privfunnel.infra.watching import Listener, Progress
from privfunnel.measures import Array
from privfunnel.model import channels
from privfunnel.model.envelope import Envelope
from privfunnel.model.problem import Problem
from privfunnel.reductions.task_cells import Cells, alike, cells_of

#: Labels of the first program, and how many times more each further one has.
FIRST_LABELS, MORE_LABELS = 32, 4
#: Cells that are enough for a first answer, and how many there may be in the end.
FIRST_CELLS, MOST_CELLS = 1_500, 6_000
#: Tables with more symbols than this are large.
LARGE = 50_000
#: Outputs with less probability than this are left out, their mass shared among the others.
NEGLIGIBLE = 1e-9
#: Entries of a channel below this are left out; on large tables, whose channels have an entry for each symbol, more of
#: what an interior point leaves behind.
LEAST_ENTRY, LEAST_ENTRY_LARGE = 1e-10, 1e-5
#: Labels of the first program where they are put where they are of use, programs at most, and new labels for each.
FIRST_PLACES, MOST_TURNS, NEW_PLACES = 64, 40, 40
#: Every so many programs prices are tested with boxes even where a local search still beats them.
TESTED_EVERY = 8
#: Leakage in nats that counts as none.
NOTHING = 5e-10
#: Where a program without leakage has more, and multipliers of this share of κ, κ grows by this factor, up to here.
AT_LIMIT, MORE_ELASTIC, MOST_ELASTIC = 0.9, 10.0, 1e5
#: The utility asked for where the most without leakage is wanted: less than any release has, so losses are not limited.
FREE = -math.inf
#: A channel's utility may fall short of the program's by rounding: aim so much higher, in nats.
AIM = 2e-9


class Found(NamedTuple):
    """A channel of cells with what it has.

    Attributes:
        cells: The cells.
        channel: p(y|c), shape (C, N).
        utility: Σ ω I(U;Y), in nats.
        leakage: I(S;Y), in nats.
    """

    cells: Cells
    channel: Array
    utility: float
    leakage: float

    @property
    def table(self) -> Any:
        """p(y|x), shape (M, N)."""
        entries = self.cells.of.size * self.channel.shape[1]
        if entries <= channels.DENSE_ENTRIES and isinstance(self.channel, np.ndarray):
            return self.channel[self.cells.of]
        return channels.as_held(sparse.csr_array(self.channel)[self.cells.of])


def all_utility(problem: Problem) -> Found:
    """The release of p(u|x) itself, which keeps all of I(U;X); any other that does leaks as much or more."""
    tasks = problem.required_tasks()
    cells = alike(problem, tasks.rows)
    channel = channels.identity(cells.n)
    return Found(cells, channel, tasks.ceiling, cells.leakage(channel))


@dataclass
class Work:
    """All that was found and proved about one problem with a task.

    Attributes:
        problem: The problem.
        gap: The gap in nats at which a point is proved.
        outputs: Labels that a program may have at most.
        deadline: When to stop.
        progress: Called with news.
    """

    problem: Problem
    gap: float
    outputs: int
    deadline: Deadline
    progress: Listener | None = None

    def __post_init__(self) -> None:
        self.tasks = self.problem.required_tasks()
        self.cells = cells_of(self.problem, FIRST_CELLS)
        self.pool: list[Found] = []
        self.lines: list[Certificate] = []
        self.steps, self.cell_loss, self.elastic = 0, 0.0, ELASTIC
        self.used = self.cells.kept[:0]
        self.proved: Certificate | None = None
        # Utility is compared in units of the largest weight, as if that were 1.
        self.unit = float(self.tasks.weights.max())
        if self.problem.n_x > LARGE:  # a channel has an entry for each symbol and output
            # Outputs that releases of such tables may have.
            self.outputs = min(self.outputs, 512)

    @cached_property
    def whole(self) -> Found:
        """All that the task can use."""
        return all_utility(self.problem)

    @cached_property
    def free(self) -> tuple[Found, Certificate]:
        """The most utility that is found without leakage, and the proof that there is hardly any more."""
        best, proof = Found(self.cells, np.ones((self.cells.n, 1)), 0.0, 0.0), None
        fullest = best
        for found, line in self._rounds(FREE):
            fullest = found if found.utility > fullest.utility else fullest
            best = found if found.leakage <= NOTHING and found.utility > best.utility else best
            if line is not None and (proof is None or line.most_utility(0.0) < proof.most_utility(0.0)):
                proof = line
            self._tell(0.0, best.utility, f"{best.utility:.6f} nats of utility without leakage")
            if proof is None:
                continue
            if proof.most_utility(0.0) - best.utility <= self.gap * self.unit or self.deadline.passed():
                break
        assert proof is not None
        self.pool += [best] if best is fullest else [best, fullest]
        return best, proof

    @cached_property
    def freely(self) -> float:
        """Utility that is quickly found to cost no leakage, in nats; nearly all of what is free."""
        found = self._channel(self._program(first_labels(self.cells, min(FIRST_LABELS, self.outputs)), FREE))
        self.pool.append(found)
        return found.utility if found.leakage <= NOTHING else 0.0

    def reach(self, utility: float) -> None:
        """Find and prove what there is at a utility in nats, unless it is known already."""
        if utility <= self.freely or self.value(utility) - self.bound(utility) <= self.gap:
            return
        self.at(utility)
        if self.value(utility) - self.bound(utility) > self.gap and not self.deadline.passed(self._begun):
            _ = self.free  # just beyond what was quickly found to be free it takes the most that is

    def at(self, utility: float) -> None:
        """Find channels around a utility in nats and prove a line there, until they are within the gap."""
        for found, line in self._rounds(utility):
            self.pool.append(found)
            if line is not None:
                self.lines.append(line)
            value, bound = self.value(utility), self.bound(utility)
            self._tell(value, bound, f"utility {utility:.4f}")
            if value - bound <= self.gap or self.deadline.passed(self._begun):
                return

    def _rounds(self, utility: float) -> Iterator[tuple[Found, Certificate | None]]:
        """Better and better channels and proofs at a utility in nats, or for the most without leakage."""
        # With more cells than this labels along a line are tried first where p(u|y) has one dimension.
        if on_a_line(self.tasks) and self.cells.n > 50:
            yield from self._by_levels(utility)
        if self.problem.n_x <= LARGE or not on_a_line(self.tasks):
            yield from self._by_places(utility)

    def _by_levels(self, utility: float) -> Iterator[tuple[Found, Certificate | None]]:
        """With labels all over, more and more of them."""
        excess, zero = 0.0, utility == FREE
        for labels in self._levels():
            aim = self._aim(labels, utility - excess + AIM)
            outcome = self._program(labels, aim)
            found = self._channel(outcome)
            yield found, self._proof(labels, outcome, zero=zero)
            # The tangents promise less than is kept, and four times as many do so by a sixteenth.
            excess = 0.0 if zero else max(found.utility - aim, 0.0) / MORE_LABELS**2

    def _by_places(self, utility: float) -> Iterator[tuple[Found, Certificate | None]]:
        """With labels where they are found to be of use: where posteriors beat the prices of the last program."""
        zero = utility == FREE
        # Cells for which the labels below are enough, where they are put where they are of use.
        # How many times more labels there may be with more cells.
        wide = min(max(self.cells.n // 100, 1), 4)  # many cells take many outputs
        spread = first_labels(self.cells, min(wide * FIRST_PLACES, self.outputs))
        labels = clipped(np.concatenate([self.used, spread]))[: self.outputs]
        for turn in range(MOST_TURNS):
            # To which share of the gap those are solved: their prices have to be good, too.
            outcome = self._program(labels, self._aim(labels, utility + AIM), 0.02)
            found, line = self._channel(outcome), None
            cover = Cover(self.cells, *self._prices(labels, outcome, zero=zero), zero=zero)
            tips = cover.local(starts(self.cells, self.used, turn))
            late = self.deadline.passed(PLAN.placed)
            if tips.brackets.min() > -self.gap / 4.0 or late or turn % TESTED_EVERY == TESTED_EVERY - 1:
                cover.close(0.45 * self.gap, self.deadline, patient=late)
                line = self._covered(cover)
                tips = tips.joined(cover.tips)
            yield found, line
            labels = clipped(np.concatenate([self.used, tips.worst(-self.gap / 10.0, wide * NEW_PLACES)]))
            if self._aim(labels, utility) < utility:
                labels = np.concatenate([labels, spread])
            labels = labels[: self.outputs]
            if line is not None:
                self._shape()

    def _prices(self, labels: Array, outcome: Outcome, *, zero: bool) -> tuple[Array, float]:
        """Prices of the cells, (C,), and the slope of a program: what a cell costs where its mass is, on average.

        Without leakage they are utility, in units of the largest weight.

        Where it would be cheaper still is found out afterwards; outputs that hardly occur are not to be believed.
        """
        table, cells = losses(self.tasks, self.cells.kept, labels), self.cells
        if zero:
            told = cells.told - cells.p @ cells.told
            prices = (outcome.slope * table + told @ outcome.multipliers.T).min(axis=1)
            return prices / self.unit, outcome.slope / self.unit
        mass = np.maximum(outcome.mass, 0.0)
        images = np.maximum(mass.T @ cells.told, measures.TINY)
        q = measures.safe_log(images / images.sum(axis=1, keepdims=True))
        costs = outcome.last_slope * table + cells.told @ q.T
        return np.asarray((mass * costs).sum(axis=1) / mass.sum(axis=1)), outcome.last_slope

    def _covered(self, cover: Cover) -> Certificate:
        """The certificate of boxes that were closed."""
        (tree, q, tilts), slope = cover.proof(), cover.slope
        unit = self.unit if cover.zero else 1.0
        q, tilts = unit * q, unit * tilts
        made = TaskBody.build(
            self.problem, tree, q, 1.0 if cover.zero else slope, tilts=tilts, zero=cover.zero
        )
        self.proved = made
        h_s = 0.0 if cover.zero else self.problem.h_s
        self.cell_loss = h_s + cover.bound - slope * self.tasks.h_u - made.intercept / unit
        return made

    def _aim(self, labels: Array, utility: float) -> float:
        """The utility, or somewhat less than so few labels can keep."""
        least = float(self.cells.p @ losses(self.tasks, self.cells.kept, labels).min(axis=1))
        near = 1.0 - min(utility / self.tasks.ceiling, 1.0)
        return min(utility, max(0.99, 1.0 - near / 2.0) * (self.tasks.h_u - least))

    def _shape(self) -> None:
        """Make other cells by the last proof where it is cells that it loses by."""
        if self.proved is not None and not self.cells.exact and self.cell_loss > self.gap / 4.0:
            functions = self.proved.body_of(TaskBody).functions(self.problem, self.proved.claim)
            target = self.gap / 20.0 * (self.unit if self.proved.claim.scope.zero else 1.0)
            self.cells = shaped(self.problem, functions, target, MOST_CELLS)

    @property
    def _begun(self) -> float:
        """Share of the time after which no program is begun: on large tables each takes longer than all before."""
        return 0.4 if self.problem.n_x > LARGE else 1.0

    def bound(self, utility: float) -> float:
        """The best proved bound on the leakage at a utility in nats."""
        return max([0.0, *(line.lower_bound(utility) for line in self.lines)])

    def line(self, utility: float) -> Certificate | None:
        """The certificate that proves most at a utility in nats, or None where leakage ≥ 0 is all that is proved."""
        best = max(self.lines, key=lambda line: line.lower_bound(utility), default=None)
        return best if best is not None and best.lower_bound(utility) > 0.0 else None

    def value(self, utility: float) -> float:
        """The least leakage found at a utility in nats, by time sharing."""
        return float(self._envelope.value(utility))

    def slope(self, utility: float) -> float:
        """Leakage per utility of what was found there."""
        return self._envelope.slope(utility)

    def within(self, leakage: float) -> float:
        """The most utility found within a leakage in nats, by time sharing; a little less, for rounding."""
        envelope = self._envelope
        if envelope.leakage[-1] <= leakage:
            return float(envelope.disclosure[-1])
        rising = np.flatnonzero(envelope.leakage > leakage)[0]
        left, right = rising - 1, rising
        share = (leakage - envelope.leakage[left]) / (envelope.leakage[right] - envelope.leakage[left])
        width = envelope.disclosure[right] - envelope.disclosure[left]
        return float(max(envelope.disclosure[left] + share * width - AIM, 0.0))

    def meeting(self, leakage: float, most: float) -> float:
        """Where the curve seems to meet a leakage in nats, at a utility of ``most`` at most.

        Leakage grows with the square of utility at first, so that its root is interpolated between what was found.
        """
        envelope = self._envelope
        right = int(np.flatnonzero(envelope.leakage > leakage)[0])
        x, y = envelope.disclosure[right - 1 : right + 1], np.sqrt(np.maximum(envelope.leakage, 0.0))
        share = (np.sqrt(leakage) - y[right - 1]) / (y[right] - y[right - 1])
        # Not where a point was found already, and not beyond what is proved.
        return float(min(x[0] + np.clip(share, 0.02, 0.98) * (x[1] - x[0]), most))

    def channel(self, utility: float) -> Any:
        """A channel (M, N) that has it."""
        envelope, found = self._envelope, self._candidates
        left, right, weight = envelope.neighbours(utility)
        if envelope.vertex(utility) is not None or left == right:
            nearest = int(np.argmin(np.abs(envelope.disclosure - utility)))
            if envelope.disclosure[nearest] >= utility:
                return self._table(found[envelope.index[nearest]])
        tables = [self._table(found[envelope.index[i]]) for i in (left, right)]
        kept = [found[envelope.index[i]].utility if found[envelope.index[i]] else 0.0 for i in (left, right)]
        # Aimed a little higher, so that rounding does not fall short of what was asked for.
        weight = (
            min((utility + AIM / 4.0 - kept[0]) / (kept[1] - kept[0]), 1.0) if kept[1] > kept[0] else weight
        )
        return channels.time_share(tables, [1.0 - weight, weight])

    def _table(self, found: Found | None) -> Any:
        return channels.constant(self.problem.n_x) if found is None else found.table

    @property
    def _candidates(self) -> list[Found | None]:
        return [None, *self.pool, self.whole]

    @property
    def _envelope(self) -> Envelope:
        """The lower convex envelope of (utility, leakage) of everything found."""
        points = [(0.0, 0.0) if each is None else (each.utility, each.leakage) for each in self._candidates]
        return Envelope.of(points)

    def _levels(self) -> Iterator[Array]:
        """Sets of labels, each larger than the one before; cells are refined with them where that could matter."""
        count = FIRST_LABELS
        while True:
            count = min(count, self.outputs)
            yield first_labels(self.cells, count)
            if count >= self.outputs:
                return
            count *= MORE_LABELS if count < 100 else 2
            self._shape()

    def _program(self, labels: Array, utility: float, precision: float = 0.1) -> Outcome:
        """The program of labels at a utility in nats (FREE: the most without leakage), solved to a share of the gap."""
        # In units of the largest weight, so that multipliers have the size that the method expects.
        scale = self.unit
        table = losses(self.tasks, self.cells.kept, labels) / scale
        limit = (self.tasks.h_u - utility) / scale
        tolerance = precision * self.gap
        program = Program(self.cells.p, self.cells.told, table, limit, self.elastic)
        outcome = minimise(program, tolerance, self.deadline)
        self.steps += outcome.steps
        if program.limited:
            return outcome._replace(slope=outcome.slope / scale, last_slope=outcome.last_slope / scale)
        while self._held_back(outcome) and not self.deadline.passed():
            self.elastic *= MORE_ELASTIC
            outcome = minimise(program._replace(elastic=self.elastic), tolerance, self.deadline)
            self.steps += outcome.steps
        return outcome._replace(multipliers=outcome.multipliers * scale)

    def _held_back(self, outcome: Outcome) -> bool:
        """Whether a program without leakage leaks because κ is too small: as where a private symbol is rare."""
        limited = np.abs(outcome.multipliers).max(initial=0.0) > AT_LIMIT * self.elastic
        return bool(limited and self.elastic < MOST_ELASTIC and self._channel(outcome).leakage > NOTHING)

    def _channel(self, outcome: Outcome) -> Found:
        """The channel of a program's masses, without outputs that hardly occur."""
        mass = np.maximum(outcome.mass, 0.0)
        mass = mass[:, mass.sum(axis=0) > NEGLIGIBLE]
        share = mass / mass.sum(axis=1, keepdims=True)
        least = LEAST_ENTRY if self.problem.n_x <= LARGE else LEAST_ENTRY_LARGE
        share = np.where(share > least, share, 0.0)
        share = share[:, share.any(axis=0)]
        share /= share.sum(axis=1, keepdims=True)
        cells = self.cells
        r = cells.p @ share
        # Labels of outputs that are likelier than this are kept for the next program.
        self.used = ((cells.kept * cells.p[:, None]).T @ share / r).T[r > 1e-6]
        return Found(cells, share, cells.utility(share), cells.leakage(share))

    def _proof(self, labels: Array, outcome: Outcome, *, zero: bool) -> Certificate:
        """A certificate of the program's multipliers, with as many boxes as are of use."""
        boxes = Boxes(self.cells, Multipliers(labels, outcome, zero=zero), outcome.slope)
        unit = self.unit if zero else 1.0
        # Boxes that a proof may have.
        boxes.refine(self.gap * unit / 10.0, 3_000)
        tree, q = boxes.proof()
        made = TaskBody.build(self.problem, tree, q, outcome.slope, zero=zero)
        self.proved = made
        h_s = 0.0 if zero else self.problem.h_s
        self.cell_loss = (h_s + boxes.bound - outcome.slope * self.tasks.h_u - made.intercept) / unit
        return made

    def _tell(self, value: float, bound: float, message: str) -> None:
        if self.progress is not None:
            self.progress(Progress(value=value, bound=bound, message=message))

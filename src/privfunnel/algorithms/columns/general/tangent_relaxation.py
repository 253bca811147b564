"""The convex relaxation of one box of allowed posteriors, as a linear program that learns tangents.

Over a box l ≤ w ≤ u the bracket is F(w) = Σ_a θ_a φ_a(w) + μ H(w) − a·w with φ_a = −H(S|A)_w, or another measure's: a
sum of convex homogeneous functions, one for each value of A. With −w log w replaced by its chord and each of these
functions by the tangents known so far it is a linear program in w, on one live HiGHS model. Tangents hold everywhere
and for all prices: they are kept. The set W gives rows of its own; these may be violated at a price, so that every box
has a solution, and one that misses W has a large value. Of a release for a task p(u|y) are further entries of a point,
with concave terms and intervals of their own, tied to w by rows that may be violated at the same price.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.algorithms.posteriors.boxes import Box
from privfunnel.algorithms.posteriors.lp import INFINITY, NO_ROWS, NO_VALUES, is_optimal, new_model, run_until
from privfunnel.certificate.attacker_images import Block, Stack
from privfunnel.certificate.tree import LARGEST
from privfunnel.measures import INFORMATION, TINY, Array, entropy
from privfunnel.measures.leakages import KINDS


class Solved(NamedTuple):
    """A minimiser (n,) of the program, the multipliers of the stack (J,) and ν, and what W's rows are violated by."""

    point: Array
    multipliers: Array
    price: float
    violation: float


class _Tangents:
    """Rows of tangents: whose block they belong to, multipliers q padded to the widest block, and when last in use."""

    def __init__(self) -> None:
        self.blocks: list[int] = []
        self.q: list[Array] = []
        self.used: list[int] = []


class Relaxation:
    """The programs of one stratum's boxes.

    Args:
        images: The stratum's stack, with weight 1 for every attacker.
        centre: p(x) of the stratum, (M,), which is in W.

    Attributes:
        deadline: When its programs end, solved or not.
    """

    def __init__(self, images: Stack, centre: Array) -> None:
        self.images, self.centre = images, images.points(centre)
        self.deadline: Deadline = NEVER
        self.n_x, self.n_entries = images.n_x, len(images.columns)
        self.curved = [j for j, block in enumerate(images.blocks) if block.leaks or block.kind == "diverse"]
        self.constrained = any(not block.leaks and block.kind != "kept" for block in images.blocks)
        # A descent keeps to no caps, such as those of k.
        self.free = not self.constrained and not bool((images.caps[: self.n_x] < 1.0).any())
        heads = [block for block in images.blocks if block.leaks]
        self.measure = KINDS[heads[0].kind] if heads else INFORMATION
        self._priors = np.concatenate(
            [np.zeros(0), *(block.prior for block in heads if block.prior is not None)]
        )
        self._starts = np.array([block.start for block in heads], dtype=np.intp)
        self._stop = heads[-1].stop if heads else 0
        self._owners = np.array([block.owner for block in heads], dtype=np.intp)
        self._reached = np.zeros(len(heads))
        self.of_w = np.arange(images.columns.shape[1]) >= self._stop
        self._clock = 0
        self._every = np.arange(self.n_entries, dtype=np.int32)
        self._tangents = _Tangents()
        self._fixed: list[tuple[int, float]] = []  # row → place in the stack and sign/scale of its dual
        self._lp = new_model()
        self._columns = self.n_entries
        for _ in range(self.n_entries):
            self._lp.addCol(0.0, 0.0, 1.0, 0, NO_ROWS, NO_VALUES)
        self._lp.addRow(1.0, 1.0, self.n_x, self._every[: self.n_x], np.ones(self.n_x))
        self._slacks: list[int] = []
        self._equal, self._basis, self._equations = np.zeros(0, np.intp), np.zeros((0, self.n_x)), 0
        self._back = np.zeros((0, 0))
        self._heights: dict[int, int] = {}
        self._add_blocks()
        self._first_tangent = int(self._lp.getNumRow())
        for j in self.curved:
            t = images.columns[:, images.blocks[j].places].mean(axis=0)
            self.add_tangent(j, self._tangent(images.blocks[j], t))

    # --- the model ----------------------------------------------------------------------------------------------

    def _add_blocks(self) -> None:
        for j, block in enumerate(self.images.blocks):
            if block.leaks:
                self._heights[j] = self._new_column(0.0, -INFINITY)
            elif block.kind == "below":
                for place in range(block.start, block.stop):
                    self._add_row(place)
            elif block.kind == "ball":
                self._add_ball(block)
            elif block.kind == "kept":
                for place in range(block.start, block.stop):
                    either = [(self._slack(), -1.0), (self._slack(), 1.0)]
                    self._row(0.0, 0.0, either, self.images.columns[:, place])
                    self._fixed.append((place, -1.0))
            elif block.kind == "diverse":
                self._heights[j] = self._slack()
        self._add_equations()

    def _add_equations(self) -> None:
        """``columns·w = 0`` of all equations by an orthonormal basis of them: they depend on each other."""
        places = [np.arange(each.start, each.stop) for each in self.images.blocks if each.kind == "equal"]
        if not places:
            return
        self._equal = np.concatenate(places)
        left, sizes, right = np.linalg.svd(self.images.columns[: self.n_x, self._equal], full_matrices=False)
        # Equations whose singular value is below this many roundings are none.
        rank = int(np.sum(sizes > 8.0 * max(left.shape) * float(np.finfo(np.float64).eps)))
        self._basis = np.ascontiguousarray(left[:, :rank].T)
        self._back = right[:rank].T / sizes[:rank]
        self._equations = int(self._lp.getNumRow())
        for row in self._basis:
            self._row(0.0, 0.0, [(self._slack(), -1.0), (self._slack(), 1.0)], row)

    def reduced(self, prices: Array) -> Array:
        """Prices (M,) that are worth the same on W and as small as possible."""
        return prices - self._basis.T @ (self._basis @ prices)

    def _new_column(self, cost: float, lower: float = 0.0) -> int:
        self._lp.addCol(cost, lower, INFINITY, 0, NO_ROWS, NO_VALUES)
        self._columns += 1
        return self._columns - 1

    def _slack(self) -> int:
        # What violating a row of W costs, rows being scaled to a largest entry of 1.
        self._slacks.append(self._new_column(1e4))
        return self._slacks[-1]

    def _row(self, low: float, high: float, places: list[tuple[int, float]], values: Array) -> None:
        used = np.flatnonzero(values).astype(np.int32)
        rest = sorted(places)
        index = np.concatenate([used, np.array([place for place, _ in rest], dtype=np.int32)])
        entries = np.concatenate([values[used], np.array([value for _, value in rest])])
        self._lp.addRow(low, high, index.size, index, entries)

    def _add_row(self, place: int) -> None:
        """``column·w ≤ 0``, up to slack."""
        values = self.images.columns[:, place]
        scale = float(np.abs(values).max())
        # Rows whose entries are all below this are 0 by rounding.
        if scale <= 1e-13 * max(float(self.images.sizes[:, place].max()), TINY):
            return
        self._row(-INFINITY, 0.0, [(self._slack(), -1.0)], values / scale)
        self._fixed.append((place, -1.0 / scale))

    def _add_ball(self, block: Block) -> None:
        """``Σ y_j ≤ ρ`` up to slack, ``−y_j ≤ column_j·w ≤ y_j``."""
        heights = []
        for place in range(block.start, block.stop):
            values = self.images.columns[:, place]
            heights.append(self._new_column(0.0))
            self._row(0.0, INFINITY, [(heights[-1], 1.0)], -values)
            self._fixed.append((place, 1.0))
            self._row(0.0, INFINITY, [(heights[-1], 1.0)], values)
            self._fixed.append((place, -1.0))
        sums = [(height, 1.0) for height in heights] + [(self._slack(), -1.0)]
        self._row(-INFINITY, block.number, sums, np.zeros(self.n_entries))
        self._fixed.append((-1, 0.0))

    def _tangent(self, block: Block, image: Array) -> Array:
        """The multipliers q of the tangent at an image t of a block."""
        if block.prior is not None:
            return KINDS[block.kind].cut(image, block.prior)
        return INFORMATION.cut(image[:-1], image[:-1])  # of a diversity, which is about the entropy

    def add_tangent(self, j: int, q: Array) -> None:
        """Add the tangent with multipliers q of block j."""
        block = self.images.blocks[j]
        columns = self.images.columns[:, block.places]
        if block.leaks:
            self._row(0.0, INFINITY, [(self._heights[j], 1.0)], -(columns @ q))
        else:
            self._row(-INFINITY, 0.0, [(self._heights[j], -1.0)], columns[:, :-1] @ q + columns[:, -1])
        self._tangents.blocks.append(j)
        self._tangents.q.append(q)
        self._tangents.used.append(self._clock)

    def _forget(self) -> None:
        """Delete the tangents that were not in use for longest, but the newest of each block stays."""
        used = np.array(self._tangents.used)
        goes = np.argsort(used, kind="stable")[: used.size // 2]
        last = {j: number for number, j in enumerate(self._tangents.blocks)}
        goes = np.sort(np.setdiff1d(goes, np.array(list(last.values()))))
        rows = (goes + self._first_tangent).astype(np.int32)
        self._lp.deleteRows(rows.size, rows)
        stays = np.setdiff1d(np.arange(used.size), goes)
        for name in ("blocks", "q", "used"):
            listed = getattr(self._tangents, name)
            setattr(self._tangents, name, [listed[i] for i in stays])

    # --- solving ------------------------------------------------------------------------------------------------

    def weigh(self, weights: Array) -> None:
        """Set the weights θ, one an average."""
        for j in self.curved[: self._starts.size]:
            self._lp.changeColCost(self._heights[j], float(weights[self.images.blocks[j].owner]))

    def minimise(self, cost: Array, box: Box) -> Solved | None:
        """Minimise ``Σ θ φ + cost·w`` over a box by the tangents known; None where it could not be solved in time.

        ``cost`` is (n,), and the box that of all entries.
        """
        self._clock += 1
        # Tangents that a model keeps at most; then those that were not needed for longest go.
        if len(self._tangents.q) > 200:
            self._forget()
        self._lp.changeColsCost(self.n_entries, self._every, cost)
        self._lp.changeColsBounds(self.n_entries, self._every, box.lower, box.upper)
        run_until(self._lp, self.deadline)
        if not is_optimal(self._lp):
            if self.deadline.passed():
                return None
            self._lp.clearSolver()
            run_until(self._lp, self.deadline)
            if not is_optimal(self._lp):
                return None
        solution = self._lp.getSolution()
        duals, values = np.array(solution.row_dual), np.array(solution.col_value)
        self._reached = values[self.n_entries : self.n_entries + self._starts.size]
        return Solved(
            np.clip(values[: self.n_entries], box.lower, box.upper),
            self._multipliers(duals),
            float(duals[0]),
            float(values[self._slacks].sum()),
        )

    def reach(self, symbol: int, sign: float, box: Box) -> Solved | None:
        """The least ``sign``·w_symbol that W allows in a box, ``sign`` being 1 or −1; tangents have no weight."""
        cost = np.zeros(self.n_entries)
        cost[symbol] = sign
        return self.minimise(cost, box)

    @property
    def equations(self) -> tuple[Array, Array]:
        """The equations of W, independent, with Σ w = 1 last: rows (n, M) and what they equal, (n,)."""
        rows = np.vstack([self._basis, np.ones((1, self.n_x))])
        return rows, np.append(np.zeros(len(self._basis)), 1.0)

    @property
    def n_equations(self) -> int:
        """How many independent equations W has."""
        return len(self._basis)

    def _multipliers(self, duals: Array) -> Array:
        z = np.zeros(self.images.columns.shape[1])
        for row, (place, factor) in enumerate(self._fixed, 1):
            if place >= 0:
                z[place] += factor * duals[row]
        if len(self._basis):
            z[self._equal] = -self._back @ duals[self._equations : self._equations + len(self._basis)]
        weights: dict[int, float] = {}
        for number in np.flatnonzero(duals[self._first_tangent :]):
            j, q = self._tangents.blocks[number], self._tangents.q[number]
            block = self.images.blocks[j]
            weight = abs(float(duals[self._first_tangent + number]))
            self._tangents.used[number] = self._clock
            z[block.start : block.start + q.size] += weight * q
            if block.kind == "diverse":
                z[block.stop - 1] += weight
            weights[j] = weights.get(j, 0.0) + weight
        for j in self.curved[: self._starts.size]:
            # The mean of tangents' q is a tangent's q or better; a block of weight 0 has nothing to say.
            block = self.images.blocks[j]
            total = weights.get(j, 0.0)
            idle = self.measure.idle(block.stop - block.start)
            z[block.places] = z[block.places] / total if total > 0.0 else idle
        return np.clip(z, -0.5 * LARGEST, 0.5 * LARGEST)

    def pulled(self, point: Array) -> Array:
        """A point (n,) that meets W's rows and tangents, moved towards p(x) until it meets the entropies too, (M,)."""
        for j in self.curved[self._starts.size :]:
            block = self.images.blocks[j]
            columns = self.images.columns[:, block.places][:, :-1]
            if float(entropy(point @ columns)) >= block.number:
                continue
            low, high = 0.0, 1.0
            # Halvings of the way from a posterior to p(x), where an entropy is too small.
            for _ in range(60):
                middle = 0.5 * (low + high)
                there = (1.0 - middle) * point + middle * self.centre
                low, high = (
                    (low, middle) if float(entropy(there @ columns)) >= block.number else (middle, high)
                )
            point = (1.0 - high) * point + high * self.centre
        return point[: self.n_x]

    def curvature(self, point: Array) -> Array:
        """φ of every block of an average at a point (n,), shape (blocks,)."""
        if not self._starts.size:
            return np.zeros(0)
        image = point @ self.images.columns[:, : self._stop]
        return self.measure.value(image, self._starts, self._priors)

    @cached_property
    def sums(self) -> Array:
        """Which column belongs to which attacker's block, shape (J, blocks): 1 where it does."""
        table = np.zeros((self.images.columns.shape[1], self._starts.size))
        sizes = np.diff(np.append(self._starts, self._stop))
        table[np.arange(self._stop), np.repeat(np.arange(self._starts.size), sizes)] = 1.0
        return table

    def spread(self, weights: Array) -> Array:
        """The weight of each attacker's block, (blocks,)."""
        return np.asarray(weights[self._owners])

    def scale(self, weights: Array) -> Array:
        """What each column of the stack is multiplied by, (J,): the weight for attackers' blocks, 1 for W's."""
        return np.asarray(self.sums @ self.spread(weights) + self.of_w)

    def sharpen(self, point: Array, weights: Array, tolerance: float) -> bool:
        """Add tangents at the last minimiser (M,) where those known lie below by more than ``tolerance`` nats in all.

        Returns whether there were any.
        """
        missed = weights[self._owners] * (self.curvature(point) - self._reached)
        needed = [int(j) for j in np.flatnonzero(missed > tolerance / max(missed.size, 1))]
        for j in self.curved[missed.size :]:
            block = self.images.blocks[j]
            t = point @ self.images.columns[:, block.places][:, :-1]
            # An entropy may miss its least value by this much, in nats, before a tangent is added.
            if block.number - float(entropy(t)) > 1e-10:
                needed.append(j)
        for j in needed:
            block = self.images.blocks[j]
            self.add_tangent(j, self._tangent(block, point @ self.images.columns[:, block.places]))
        return bool(needed)

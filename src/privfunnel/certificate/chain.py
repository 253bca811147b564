"""Proofs for many private symbols from proofs for two: S is told in steps, each of them a yes or no.

Let S' be a function of S with two values. Given S' = i the posterior w becomes w^i ∝ w_x p(i|x) with probability
t'_i = Σ w_x p(i|x), and the chain rule gives H(Pw) = H(t') + Σ t'_i H(S|i, w^i) and, h'_x being the entropy of p(·|x),
Σ t'_i H(w^i) = H(w) + Σ w_x h'_x − H(t'). Hence for any m < 1, with σ = (μ − m)/(1 − m) and

    a_x = (1 − m) a'_x + Σ_i p(i|x) a^i_x − m h'_x,

    −H(Pw) + μ H(w) − a·w = (1 − m) [−H(t') + σ H(w) − a'·w] + Σ_i t'_i [−H(S|i, w^i) + m H(w^i) − a^i·w^i].

The first bracket is the F of a funnel with two private symbols, which :mod:`.pairs` bounds at any number of classes.
The others are F's of the strata S' = i at slope m, to which the same applies until one symbol is left, whose bracket is
m H(w^i) ≥ 0 with prices 0, or the slope is 0, where Gibbs' inequality bounds it. So F ≥ (1 − m) f' + min_i f^i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.certificate.archive import Archive
from privfunnel.certificate.cells import cell_columns, spread_within
from privfunnel.certificate.pairs import PairsProof, check_pairs
from privfunnel.certificate.parts import Part
from privfunnel.certificate.tree import LARGEST
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, Arrays

_EPS = float(np.finfo(np.float64).eps)
#: Roundings of one step besides one for each private symbol: its products, its entropy and their sum.
_ADDING = 16
#: How far apart the two sides of μ = (1 − m) σ + m may be: rounding, which is then allowed for.
_SAME_SLOPE = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One yes or no about S, and the proof of its funnel.

    Attributes:
        sides: For each private symbol 0 or 1, or −1 where an earlier step has ruled it out, shape (K,).
        slope: σ of its funnel.
        rest: m, the slope of the steps after it.
        prices: a', shape (C,); those of classes that the earlier steps rule out do not count.
        cells: For each of the classes that are left, in their order, its place among those that differ in this step.
        proof: That its F is at least ``proof.claim``.
    """

    sides: NDArray[np.int32]
    slope: float
    rest: float
    prices: Array
    cells: NDArray[np.int32]
    proof: PairsProof

    def __post_init__(self) -> None:
        for array in (self.sides, self.prices, self.cells):
            array.setflags(write=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class ChainProof(Part):
    """Proof of F ≥ ``claim`` for a table of C classes by steps about S.

    Attributes:
        claim: The value proved, in nats.
        shares: Positive numbers, shape (K,), p(s) say: a stratum at slope 0 needs no step, see :func:`flat_prices`.
        steps: At most K − 1.
    """

    kind: ClassVar[str] = "chain"

    claim: float
    shares: Array
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        self.shares.setflags(write=False)

    def arrays(self) -> Arrays:
        """All that is stored but for the claim, by name."""
        numbers = [(step.slope, step.rest, step.proof.claim) for step in self.steps]
        made: Arrays = {
            "steps": np.array(numbers, dtype=np.float64).reshape(-1, 3),
            "shares": self.shares,
        }
        for number, step in enumerate(self.steps):
            made |= {f"{number}.{name}": getattr(step, name) for name in ("sides", "prices", "cells")}
            made |= {f"{number}.{name}": array for name, array in step.proof.arrays().items()}
        return made

    @classmethod
    def read(cls, archive: Archive, place: str, claim: float) -> Self:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        steps = []
        for number, (slope, rest, own) in enumerate(archive.floats(f"{place}.steps")):
            at = f"{place}.{number}"
            steps.append(
                Step(
                    sides=archive.integers(f"{at}.sides"),
                    slope=float(slope),
                    rest=float(rest),
                    prices=archive.floats(f"{at}.prices"),
                    cells=archive.integers(f"{at}.cells"),
                    proof=PairsProof.read(archive, at, float(own)),
                )
            )
        return cls(claim=claim, shares=archive.floats(f"{place}.shares"), steps=tuple(steps))

    def check_alone(self, columns: Array, prices: Array, slope: float, spread: float) -> None:
        """Raise CertificateError unless it proves its claim: see :func:`check_chain`."""
        check_chain(columns, prices, slope, self, spread)

    @property
    def n_nodes(self) -> int:
        """Number of boxes: none."""
        return 0


def check_chain(columns: Array, prices: Array, slope: float, proof: ChainProof, spread: float) -> None:
    """Raise CertificateError unless F ≥ ``proof.claim`` on the simplex of these classes.

    Args:
        columns: p(s|class), shape (K, C), to the share ``spread`` those of all members.
        prices: Shape (C,).
        slope: μ, from 0 to 1.
        proof: The claim, and the steps.
        spread: By what share entries differ within a class.
    """
    n_s, n = columns.shape
    steps = {(step.sides >= 0).tobytes(): step for step in proof.steps}
    sound = len(steps) == len(proof.steps) < n_s and 0.0 <= slope <= 1.0 and abs(proof.claim) < LARGEST
    if not (sound and all(_well_formed(step, n_s, n) for step in proof.steps)):
        raise CertificateError("the certificate's steps are not those of a chain: it is damaged")
    if not (proof.shares.shape == (n_s,) and np.all((proof.shares > 0.0) & (proof.shares <= LARGEST))):
        raise CertificateError("the certificate's shares of private symbols are not usable: it is damaged")
    columns = columns / columns.sum(axis=0)
    made, value = _check_stratum(columns, np.ones(n_s, dtype=bool), slope, steps, proof.shares)
    size = 2.0 + np.log(n_s) + max((float(np.abs(step.prices).max()) for step in proof.steps), default=0.0)
    size += float(np.abs(np.log(proof.shares)).max()) + abs(float(np.log(proof.shares.sum())))
    rounding = (len(steps) * (n_s + _ADDING) * _EPS) * (size + float(np.abs(prices).max()))
    rounding += len(steps) * _SAME_SLOPE * np.log(n)
    # Entries that differ by a share δ move Σ t log t by no more than δ(h + 1), and so does their normalisation.
    rounding += (2.0 * spread + 8.0 * _EPS) * 2.0 * (1.0 + np.log(n_s))
    proved = value - float(np.max(prices - made)) - rounding
    if not proof.claim <= proved:
        raise CertificateError(
            f"the certificate does not prove its claim: its steps give {proved!r}, it claims {proof.claim!r}"
        )


def chain_prices(halves: Array, rest: float, own: Array, sides: tuple[Array, Array]) -> Array:
    """``(1 − m) a' + Σ_i p(i|x) a^i − m h'``, (C,): see the module.

    Args:
        halves: p(i|x), shape (2, C).
        rest: m.
        own: a', shape (C,).
        sides: a^0 and a^1, shape (C,) each.
    """
    within = halves[0] * sides[0] + halves[1] * sides[1]
    return np.asarray((1.0 - rest) * own + within - rest * measures.entropy(halves, axis=0))


def flat_prices(columns: Array, members: NDArray[np.bool_], shares: Array) -> Array:
    """``Σ_s p(s|i, x) log q_s`` with q the shares of the stratum's private symbols, (C,); 0 where it has no mass.

    At slope 0 the bracket of a stratum is then Σ t log(t/q) ≥ 0, t being its p(s|i, w).
    """
    own = columns[members]
    mass = own.sum(axis=0)
    weighted = np.log(shares[members] / shares[members].sum()) @ own
    return np.asarray(np.where(mass > 0.0, weighted / np.where(mass > 0.0, mass, 1.0), 0.0))


def halves_of(columns: Array, sides: NDArray[np.int32]) -> tuple[Array, NDArray[np.bool_]]:
    """p(i|x) of a step for the classes that are left, (2, C'), and which these are, (C,)."""
    both = np.stack([columns[sides == side].sum(axis=0) for side in (0, 1)])
    left = both.sum(axis=0) > 0.0
    return both[:, left] / both[:, left].sum(axis=0), left


def _well_formed(step: Step, n_s: int, n: int) -> bool:
    """Whether a step's arrays have their shapes and its numbers are usable."""
    return bool(
        step.sides.shape == (n_s,)
        and step.sides.dtype == np.int32
        and set(step.sides.tolist()) | {-1} == {-1, 0, 1}
        and step.prices.shape == (n,)
        and step.prices.dtype == np.float64
        and np.all(np.abs(step.prices) <= LARGEST)
        and step.cells.ndim == 1
        and step.cells.dtype == np.int32
        and step.cells.size > 0
        and np.array_equal(np.unique(step.cells), np.arange(int(step.cells.max()) + 1))
        and 0.0 < step.slope <= 1.0
        and 0.0 <= step.rest < 1.0
    )


def _check_stratum(
    columns: Array, members: NDArray[np.bool_], slope: float, steps: dict[bytes, Step], shares: Array
) -> tuple[Array, float]:
    """Prices (C,) and a lower bound of the bracket of the private symbols ``members`` (K,) at a slope."""
    n = columns.shape[1]
    if members.sum() == 1:
        return np.zeros(n), 0.0
    if slope == 0.0:
        return flat_prices(columns, members, shares), 0.0
    step = steps.get(members.tobytes())
    if step is None or abs((1.0 - step.rest) * step.slope + step.rest - slope) > _SAME_SLOPE:
        raise CertificateError("the certificate's steps do not fit together: it is damaged")
    halves, left = halves_of(columns, step.sides)
    if step.cells.size != halves.shape[1]:
        raise CertificateError("the certificate's steps do not fit together: it is damaged")
    merged, exact = cell_columns(halves, step.cells)
    own = np.full(merged.shape[1], -np.inf)
    np.maximum.at(own, step.cells, step.prices[left])  # a higher price makes F lower
    if not exact:
        raise CertificateError("a step's classes hold different p(s|x): the certificate is damaged")
    spread = spread_within(halves, merged, step.cells) + members.size * _EPS
    check_pairs(merged, own, step.slope, step.proof, spread)
    after = [_check_stratum(columns, step.sides == side, step.rest, steps, shares) for side in (0, 1)]
    made = np.zeros(n)
    made[left] = chain_prices(halves, step.rest, step.prices[left], (after[0][0][left], after[1][0][left]))
    return made, (1.0 - step.rest) * step.proof.claim + min(value for _, value in after)

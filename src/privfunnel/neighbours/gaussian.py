r"""Funnel and bottleneck of jointly Gaussian S and X, among jointly Gaussian mechanisms, in closed form.

Whiten X, write S = B X̃ + noise with covariance Σ_{s|x}, and let γ_i be the eigenvalues of Γ = BᵀΣ_{s|x}⁻¹B. A Gaussian
release that leaves variance δ_i of direction i discloses and leaks, in nats,

    I(X;Y) = ½ Σ_i log 1/δ_i,      I(S;Y) = ½ Σ_i log((1 + γ_i)/(1 + γ_i δ_i)).

*Funnel.* Each leakage is concave in what its direction discloses, so that it is best to release directions all the
way or not at all, those of smallest γ first, and to time-share one of them. "All the way" needs a *resolution*: a
least variance δ that is left of every direction, or the disclosure is infinite (docs/continuous.md). *Bottleneck.*
The same concavity asks for equal slopes: γ_i δ_i/(1 + γ_i δ_i) is the same for every direction that is told at all
(Chechik, Globerson, Tishby and Weiss, Information Bottleneck for Gaussian Variables, JMLR 6, 2005).

What is found is the best *Gaussian* mechanism. Others can do better: a comb, for instance.

    >>> import privfunnel as pf
    >>> pair = pf.gaussian.GaussianProblem([[1.0]], [[0.6, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    >>> found = pair.funnel(1.0, resolution=0.01)  # the direction that tells nothing is enough
    >>> round(found.disclosure, 6), round(found.leakage, 6)
    (1.0, 0.0)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privfunnel import measures
from privfunnel.data.engines import ReadOptions, open_table
from privfunnel.data.engines.rows import without_missing
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.infra.checks import is_number
from privfunnel.measures import Array

#: Rows that are in memory at one time.
BATCH_ROWS = 65_536
#: Eigenvalues of a covariance below this share of the largest are no variance.
SINGULAR = 1e-12


@dataclass(frozen=True, eq=False)
class GaussianMechanism:
    """A Gaussian release of X, or two of them time-shared; nats.

    Attributes:
        directions: Rows that take X, less its mean, to whitened directions of unit variance, shape (d, d).
        gains: γ of each direction, shape (d,).
        variances: What is left of each direction's variance by either release, shape (releases, d).
        shares: How often each release is used, shape (releases,).
        mean: The mean of X, shape (d,).
    """

    directions: Array
    gains: Array
    variances: Array
    shares: Array
    mean: Array

    @property
    def disclosure(self) -> float:
        """I(X;Y)."""
        return float(self.shares @ measures.gaussian_information(np.inf, self.variances))

    @property
    def leakage(self) -> float:
        """I(S;Y)."""
        return float(self.shares @ measures.gaussian_information(self.gains, self.variances))

    @property
    def noise(self) -> Array:
        """Variance of the noise that is added to each direction, (releases, d); infinite for one that is not told."""
        hidden = self.variances >= 1.0
        return np.where(hidden, np.inf, self.variances / np.where(hidden, 1.0, 1.0 - self.variances))

    def release(self, x: ArrayLike, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw the release of rows x (n, d): which one was used, (n,), and y (n, d), NaN where nothing is told."""
        rows = np.atleast_2d(np.asarray(x, dtype=np.float64))
        used = rng.choice(self.shares.size, size=len(rows), p=self.shares)
        noise = self.noise[used]
        told = np.isfinite(noise)
        whitened = (rows - self.mean) @ self.directions.T
        drawn = whitened + np.sqrt(np.where(told, noise, 0.0)) * rng.standard_normal(whitened.shape)
        return used.astype(np.float64), np.where(told, drawn, np.nan)


class GaussianProblem:
    """Jointly Gaussian private S and public X, by their covariances.

    Args:
        s: Covariance of S, shape (k, k).
        sx: Covariance of S with X, shape (k, d).
        x: Covariance of X, shape (d, d), not singular.
        mean: Mean of X, shape (d,); 0 by default.

    Raises:
        InvalidInputError: The covariances do not fit each other, or X has a direction without variance.
    """

    def __init__(self, s: ArrayLike, sx: ArrayLike, x: ArrayLike, mean: ArrayLike | None = None) -> None:
        self.s, self.sx, self.x = (_finite(name, table) for name, table in (("s", s), ("sx", sx), ("x", x)))
        k, d = self.sx.shape
        if self.s.shape != (k, k) or self.x.shape != (d, d):
            raise InvalidInputError(
                f"the covariances have shapes {self.s.shape}, {self.sx.shape}, {self.x.shape}: give (k, k), (k, d), "
                "(d, d)"
            )
        if not (np.allclose(self.s, self.s.T) and np.allclose(self.x, self.x.T)):
            raise InvalidInputError("a covariance is not symmetric: give the covariances of S and of X")
        self.mean = np.zeros(d) if mean is None else np.asarray(mean, dtype=np.float64)
        if self.mean.shape != (d,):
            raise InvalidInputError(
                f"mean has shape {self.mean.shape}: give one number for each of {d} columns"
            )

    @classmethod
    def from_columns(cls, s: ArrayLike, x: ArrayLike) -> GaussianProblem:
        """The Gaussian with the means and covariances of numeric columns: S (n, k) and X (n, d), n > k + d rows."""
        private, public = (_finite(name, table) for name, table in (("s", s), ("x", x)))
        k = private.shape[1]
        if len(private) != len(public) or len(private) <= k + public.shape[1]:
            raise InvalidInputError(
                f"there are {len(private)} and {len(public)} rows for {k + public.shape[1]} columns: give as many of "
                "both, and more rows than columns"
            )
        joint = np.atleast_2d(np.cov(np.hstack([private, public]), rowvar=False))
        return cls(joint[:k, :k], joint[:k, k:], joint[k:, k:], public.mean(axis=0))

    @classmethod
    def from_table(
        cls,
        source: object,
        *,
        private: Sequence[str],
        public: Sequence[str],
        missing: str = "refuse",
        read: ReadOptions | None = None,
    ) -> GaussianProblem:
        """The Gaussian with the means and covariances of a table's numeric columns, whose rows are streamed.

        Args:
            source: What :func:`privfunnel.data.tables.count` takes: a file, a database table, a frame.
            private: Numeric columns that make S.
            public: Numeric columns that make X.
            missing: ``"refuse"`` rows that lack a value, or ``"drop"`` them.
            read: How to read a text file or a workbook.

        Raises:
            InvalidInputError: A column is not there, not numeric, constant or both private and public, or the rows are
                too few or incomplete.
        """
        names = [*private, *public]
        if not private or not public or len(set(names)) < len(names):
            raise InvalidInputError("name one private and one public column at least, none of them twice")
        if missing not in ("refuse", "drop"):
            raise InvalidInputError(
                f"missing={missing!r} is not usable: a number has no category; use refuse or drop"
            )
        with open_table(source, read) as table:
            table.require(names)
            odd = [name for name in names if table.kinds[name] not in ("integer", "number")]
            if odd:
                raise InvalidInputError(
                    f"column {odd[0]!r} of {table.name} is {table.kinds[odd[0]]}, not numbers: leave it out, or use "
                    "curve and solve, which take categories"
                )
            rows, _ = without_missing(table, names, missing)
            n, mean, covariance = _moments(rows.batches(names, BATCH_ROWS), len(names))
        if n <= len(names):
            raise InvalidInputError(
                f"there are {n} rows for {len(names)} columns: give more rows than columns"
            )
        constant = [name for name, value in zip(names, np.diag(covariance), strict=True) if not value > 0.0]
        if constant:
            raise InvalidInputError(f"column {constant[0]!r} has one value only: leave it out")
        k = len(private)
        return cls(covariance[:k, :k], covariance[:k, k:], covariance[k:, k:], mean[k:])

    def __repr__(self) -> str:
        """One line with the sizes."""
        return f"GaussianProblem({self.sx.shape[0]} private, {self.sx.shape[1]} public columns)"

    @cached_property
    def _spectrum(self) -> tuple[Array, Array]:
        """γ, increasing, (d,), and rows that take X to the directions, (d, d)."""
        # In units of their own standard deviations: a column is not without variance because its unit is large.
        size_x, size_s = _sizes("X", self.x), _sizes("S", self.s)
        values, vectors = np.linalg.eigh(self.x / np.outer(size_x, size_x))
        if values[0] <= SINGULAR * values[-1]:
            raise InvalidInputError(
                "X has a direction without variance: leave out columns that others determine"
            )
        whitener = vectors.T / np.sqrt(values)[:, None] / size_x
        b = (self.sx / size_s[:, None]) @ whitener.T
        rest, basis = np.linalg.eigh(self.s / np.outer(size_s, size_s) - b @ b.T)
        if rest[0] <= SINGULAR * self.s.shape[0]:
            raise InvalidInputError(
                "X determines a part of S (or the covariances belong to no Gaussian): the leakage would be infinite; "
                "leave that column of S or X out"
            )
        scaled = (basis.T / np.sqrt(rest)[:, None]) @ b
        gains, turned = np.linalg.eigh(scaled.T @ scaled)
        return np.maximum(gains, 0.0), turned.T @ whitener

    @property
    def gains(self) -> Array:
        """γ of each direction of X, increasing, shape (d,): 0 tells nothing about S."""
        return self._spectrum[0]

    @property
    def directions(self) -> Array:
        """Rows that take X, less its mean, to whitened directions, in the order of :attr:`gains`, shape (d, d)."""
        return self._spectrum[1]

    def disclosure_ceiling(self, resolution: float) -> float:
        """The most that a release can disclose at a resolution δ in (0, 1), ½ d log(1/δ), in nats."""
        return self.gains.size * _step(resolution)

    @property
    def leakage_ceiling(self) -> float:
        """I(S;X) in nats."""
        return float(measures.gaussian_information(self.gains, 0.0))

    def funnel(self, disclosure: float, *, resolution: float) -> GaussianMechanism:
        """The least I(S;Y) of a Gaussian mechanism with I(X;Y) ≥ ``disclosure``, leaving variance ``resolution``.

        Args:
            disclosure: Nats, from 0 to ½ d log(1/resolution).
            resolution: δ in (0, 1): the least share of a direction's variance that a release leaves.
        """
        step = _step(resolution)
        asked, d = _checked(disclosure), self.gains.size
        if asked > d * step * (1.0 + 1e-12):
            raise InfeasibleError(
                f"disclosure={disclosure!r} is infeasible: {d} directions at this resolution have {d * step:.6g} nats"
            )
        whole = min(int(asked / step), d)
        share = min(max(asked / step - whole, 0.0), 1.0) if whole < d else 0.0
        variances = np.ones((2, d))
        variances[:, :whole] = resolution
        if whole < d:
            variances[1, whole] = resolution
        kept = np.array([1.0 - share, share])
        return self._mechanism(variances[kept > 0.0], kept[kept > 0.0])

    def bottleneck(self, rate: float) -> GaussianMechanism:
        """The most I(S;Y) of a Gaussian mechanism with I(X;Y) ≤ ``rate`` (nats): water filling."""
        asked, gains = _checked(rate), self.gains
        # γδ/(1 + γδ) = μ, hence δ = μ/((1 − μ)γ), at most 1: log δ falls linearly with the log of the level μ/(1 − μ).
        active = np.sort(gains[gains > 0.0])[::-1]
        variances = np.ones(gains.size)
        for n in range(active.size, 0, -1):
            level = np.exp((float(np.log(active[:n]).sum()) - 2.0 * asked) / n)
            if level <= active[n - 1] * (1.0 + 1e-12):
                told = gains >= active[n - 1]
                variances[told] = np.minimum(level / gains[told], 1.0)
                break
        return self._mechanism(variances[None], np.ones(1))

    def _mechanism(self, variances: Array, shares: Array) -> GaussianMechanism:
        return GaussianMechanism(self.directions, self.gains, variances, shares, self.mean)


def _sizes(name: str, covariance: Array) -> Array:
    """Standard deviations, shape (n,); none is 0."""
    variances = np.diag(covariance)
    if not np.all(variances > 0.0):
        raise InvalidInputError(f"{name} has a column without variance: leave it out")
    return np.asarray(np.sqrt(variances))


def _moments(batches: Iterator[Any], columns: int) -> tuple[int, Array, Array]:
    """Rows, means (n,) and covariance (n, n) of record batches, one batch in memory at a time.

    Sums of squares around the mean so far are merged batch by batch (Chan, Golub, LeVeque 1983): no large numbers are
    subtracted.
    """
    count, mean, squares = 0, np.zeros(columns), np.zeros((columns, columns))
    for batch in batches:
        rows = np.column_stack([np.asarray(batch.column(i), dtype=np.float64) for i in range(columns)])
        if not len(rows):
            continue
        if not np.all(np.isfinite(rows)):
            raise InvalidInputError("a column holds infinite numbers: leave these rows out")
        own = rows.mean(axis=0)
        off, total = own - mean, count + len(rows)
        squares += (rows - own).T @ (rows - own) + np.outer(off, off) * (count * len(rows) / total)
        mean, count = mean + off * (len(rows) / total), total
    return count, mean, squares / max(count - 1, 1)


def _finite(name: str, table: object) -> Array:
    """A table of finite numbers."""
    try:
        array = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} is not a table of numbers ({error}): give one") from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.size == 0 or not np.all(np.isfinite(array)):
        raise InvalidInputError(f"{name} is not a table of finite numbers: give one with rows and columns")
    return array


def _step(resolution: float) -> float:
    """What one direction discloses at a resolution, in nats."""
    if not is_number(resolution) or not 0.0 < resolution < 1.0:
        raise InvalidInputError(f"resolution={resolution!r} is not usable: give a number between 0 and 1")
    return float(measures.gaussian_information(np.inf, [resolution]))


def _checked(amount: float) -> float:
    if not is_number(amount) or not 0.0 <= amount < np.inf:
        raise InvalidInputError(f"{amount!r} is not an amount of information: give nats ≥ 0")
    return float(amount)

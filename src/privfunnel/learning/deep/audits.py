"""What a release of rows tells, and to whom: attackers on it and on the rows themselves, bounds, and what is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import InvalidInputError, need
from privfunnel.infra.checks import check_seed
from privfunnel.learning.deep.columns import classes_of
from privfunnel.learning.deep.judge import LEAST_ROWS, Bounds, Judgement, as_features, density_bounds, judge
from privfunnel.measures import Array


class Audited(NamedTuple):
    """What is audited.

    Attributes:
        release: Codes or records of the rows.
        rows: The rows as a matrix, shape (n, width).
        densities: Means and deviations of the codes, each (n, size), where they are Gaussian; None where not.
    """

    release: Any
    rows: NDArray[Any]
    densities: tuple[Array, Array] | None


@dataclass(frozen=True)
class Audit:
    """An audit of a release.

    Attributes:
        release: What attackers learn from the release.
        rows: What they learn from the rows themselves.
        kept: Share of the variance of the rows' columns that is predicted from the release, on rows not seen before.
        bounds: Between what bounds I(S;Y) lies for whoever knows the encoder and these rows, in nats; None where codes
            are not Gaussian. Attackers who must learn see less.
    """

    release: Judgement
    rows: Judgement
    kept: float
    bounds: Bounds | None

    @property
    def words(self) -> str:
        """The finding in a few sentences."""
        found = self.release.words
        told = f"The release keeps {100 * self.kept:.0f} % of the variance of the rows, and t{found[1:]}"
        told += f" From the rows themselves {100 * self.rows.best.accuracy.value:.1f} % are right."
        if self.bounds is not None:
            told += (
                f" Whoever knows the encoder and these rows learns between {self.bounds.low:.3f} and "
                f"{self.bounds.high:.3f} nats."
            )
        return told


def audited(what: Audited, s: object, *, seed: int = 0, most_rows: int = 4000) -> Audit:
    """Audit a release of rows that nothing was fitted to.

    Args:
        what: The release and the rows.
        s: What is private of each row, as in :func:`.judge.judge`.
        seed: Fixes the halves, the folds and the attackers.
        most_rows: More rows than this are sampled.
    """
    check_seed(seed)
    codes, target = as_features(what.release), classes_of(s)
    if len(codes) != len(target):
        raise InvalidInputError(f"X has {len(codes)} rows and s {len(target)}: give one value of s a row")
    some = np.random.default_rng(seed).permutation(len(target))[:most_rows]
    bounds = None
    if what.densities is not None:
        # Rows that bounds rest on at most: their work grows with the square.
        few = some[:1500]
        mean, deviation = what.densities
        bounds = density_bounds(mean[few], deviation[few], target[few])
    return Audit(
        judge(codes[some], target[some], seed=seed),
        judge(what.rows[some], target[some], seed=seed),
        explained(codes[some], what.rows[some]),
        bounds,
    )


def explained(codes: Array, rows: NDArray[Any]) -> float:
    """Share of the variance of ``rows`` (n, width) that the better of two regressions finds in ``codes`` (n, features).

    Ridge regression and 25 nearest neighbours learn from one half and are scored on the other.
    """
    half = len(codes) // 2
    if half < LEAST_ROWS:
        raise InvalidInputError(f"{len(codes)} rows are too few to audit by: give at least {2 * LEAST_ROWS}")
    scale = need("sklearn.preprocessing", "deep").StandardScaler().fit(codes[:half])
    seen, asked = scale.transform(codes[:half]), scale.transform(codes[half:])
    spread = float(((rows[half:] - rows[:half].mean(axis=0)) ** 2).sum())
    if not spread:
        return 1.0
    left = [
        float(((model.fit(seen, rows[:half]).predict(asked) - rows[half:]) ** 2).sum())
        for model in (
            need("sklearn.linear_model", "deep").Ridge(),
            need("sklearn.neighbors", "deep").KNeighborsRegressor(n_neighbors=25),
        )
    ]
    return max(1.0 - min(left) / spread, 0.0)

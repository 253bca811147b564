"""Data to try the methods on: a table of a problem, Adult, normal numbers, symmetric pairs, coloured digits."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import InvalidInputError, need
from privfunnel.infra.storage import AnyPath, read_bytes
from privfunnel.learning.deep.layout import Layout
from privfunnel.learning.deep.methods.base import Variables
from privfunnel.learning.deep.trainer import Rows
from privfunnel.measures import Array

#: Columns of the file ``adult.data`` of UCI, which has no header.
ADULT = ("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
         "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income")  # fmt: skip
#: Its public columns here, with the upper edges of the bins of numbers.
PUBLIC: dict[str, tuple[float, ...]] = {
    "age": (25, 35, 45, 55, 65), "workclass": (), "education-num": (8, 9, 10, 12, 13), "marital-status": (),
    "occupation": (), "race": (), "hours-per-week": (34, 40, 49),
}  # fmt: skip


class Dataset(NamedTuple):
    """Rows with what their columns mean.

    Attributes:
        rows: The matrices.
        variables: Their columns.
    """

    rows: Rows
    variables: Variables


def one_hot(codes: NDArray[np.int64], sizes: tuple[int, ...]) -> NDArray[np.float32]:
    """Columns of codes (n, columns) as groups of 0s and a 1, shape (n, Σ sizes)."""
    return np.concatenate([np.eye(k, dtype=np.float32)[codes[:, j]] for j, k in enumerate(sizes)], axis=1)


def from_codes(x: NDArray[Any], s: NDArray[Any], u: NDArray[Any] | None = None) -> Dataset:
    """Categorical rows.

    Args:
        x: Codes of the public columns, shape (n, columns), from 0 in each.
        s: Codes of the private attribute, shape (n,).
        u: Codes of the task, shape (n,).
    """
    columns = [
        np.asarray(part, dtype=np.int64).reshape(len(x), -1) for part in (x, s, *([] if u is None else [u]))
    ]
    sizes = [tuple(int(k) + 1 for k in part.max(axis=0)) for part in columns]
    rows = Rows(*(one_hot(part, size) for part, size in zip(columns, sizes, strict=True)))
    return Dataset(rows, Variables(*(Layout(0, size) for size in sizes)))


def from_frame(
    frame: Any, private: str | Sequence[str], task: str | Sequence[str] | None = None
) -> tuple[Any, Any, Any]:
    """X, s and the task of one frame, for ``fit``: X has neither the private columns nor the task's.

    Args:
        frame: A frame of pandas or polars.
        private: Names of what is private.
        task: Names of what the release is for; the third result is None without.
    """
    if not hasattr(frame, "columns"):
        raise InvalidInputError(
            f"a {type(frame).__name__} is no frame: give fit the columns of X and of s as they are"
        )
    hidden = [private] if isinstance(private, str) else list(private)
    wanted = [] if task is None else [task] if isinstance(task, str) else list(task)
    for name in [*hidden, *wanted]:
        if name not in list(frame.columns):
            known = ", ".join(map(str, frame.columns))
            raise InvalidInputError(f"the frame has no column {name!r}: use some of {known}")
    public = [name for name in frame.columns if name not in {*hidden, *wanted}]
    if not public or not hidden:
        raise InvalidInputError(
            f"private={private!r} and task={task!r} leave no columns: give both sides some"
        )
    return frame[public], frame[hidden], frame[wanted] if wanted else None


def from_torch(items: Any) -> tuple[Array, Array]:
    """X, flattened, and S of a PyTorch data set whose items are pairs (x, s), for ``fit``.

    Args:
        items: Anything with a length whose items are (x, s).
    """
    pairs = [items[i] for i in range(len(items))]
    if not pairs:
        raise InvalidInputError("the data set is empty: give one with items (x, s)")
    x = np.stack([np.asarray(pair[0]).reshape(-1) for pair in pairs])
    return x, np.array([np.asarray(pair[1]).reshape(-1) for pair in pairs]).squeeze(-1)


def table(p_sx: Array) -> Dataset:
    """A known distribution as weighted rows, one a cell: objectives are then exact expectations.

    Args:
        p_sx: p(s, x), shape (K, M).
    """
    n_s, n_x = p_sx.shape
    s, x = np.nonzero(p_sx > 0.0)
    rows = Rows(np.eye(n_x, dtype=np.float32)[x], np.eye(n_s, dtype=np.float32)[s], None, p_sx[s, x])
    return Dataset(rows, Variables(Layout(0, (n_x,)), Layout(0, (n_s,))))


def adult(path: AnyPath, private: str = "income") -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Adult as codes: seven public columns (n, 7), numbers binned, and the private one (n,).

    Args:
        path: The file ``adult.data`` of UCI (doi 10.24432/C5XW20).
        private: ``"income"`` or ``"sex"``.
    """
    if private not in ("income", "sex"):
        raise InvalidInputError(f"private={private!r} is not offered: use 'income' or 'sex'")
    text = read_bytes(path).decode("utf-8")
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if len(row) == len(ADULT)]
    if not rows:
        raise InvalidInputError(
            f"{str(path)!r} has no row of {len(ADULT)} columns: give the file adult.data of UCI"
        )
    whole = np.array(rows)
    columns = []
    for name, edges in PUBLIC.items():
        values = whole[:, ADULT.index(name)]
        if edges:
            columns.append(np.searchsorted(np.array(edges), values.astype(float), side="left"))
        else:
            columns.append(np.unique(values, return_inverse=True)[1].reshape(-1))
    hidden = np.unique(whole[:, ADULT.index(private)], return_inverse=True)[1].reshape(-1)
    return np.stack(columns, axis=1).astype(np.int64), hidden.astype(np.int64)


def normal_pair(rows: int, mixing: Array, seed: int = 0) -> Dataset:
    """Normal X with independent standard columns, and ``S = B x + ε`` in units of its deviations.

    Args:
        rows: How many.
        mixing: B, shape (private, public); ε is standard normal.
        seed: Fixes the draws.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, mixing.shape[1]))
    s = x @ mixing.T + rng.standard_normal((rows, len(mixing)))
    s /= np.sqrt((mixing**2).sum(axis=1) + 1.0)
    layouts = Variables(Layout(x.shape[1]), Layout(s.shape[1]))
    return Dataset(Rows(x.astype(np.float32), s.astype(np.float32)), layouts)


def discretised_pair(correlation: float, n_s: int, n_x: int) -> Array:
    """p(s, x) of a standard normal pair in bins of equal probability, shape (n_s, n_x), by quadrature."""
    normal = need("scipy.stats", "audit").norm
    edges_s = normal.ppf(np.arange(1, n_s) / n_s)
    # X by the midpoints of a fine grid of its quantiles, S given X in closed form.
    fine = 500
    grid = normal.ppf((np.arange(n_x * fine) + 0.5) / (n_x * fine))
    spread = np.sqrt(1.0 - correlation**2)
    below = normal.cdf((edges_s[:, None] - correlation * grid[None, :]) / spread)
    within = np.diff(np.concatenate([np.zeros((1, len(grid))), below, np.ones((1, len(grid)))]), axis=0)
    p_sx = within.reshape(n_s, n_x, fine).mean(axis=2) / n_x
    return np.asarray(p_sx / p_sx.sum())


def symmetric_pair(size: int, error: float) -> Array:
    """p(s, x) of a uniform S and an X that equals it but for a share ``error``, spread evenly; (size, size)."""
    p_sx = np.full((size, size), error / (size - 1))
    np.fill_diagonal(p_sx, 1.0 - error)
    return p_sx / size


def coloured_digits(seed: int = 0, agreement: float = 0.8) -> tuple[NDArray[np.float32], Array, Array]:
    """Handwritten digits of 8 × 8 pixels in one of two colours, which go with the digit as in coloured MNIST.

    Args:
        seed: Fixes the colours.
        agreement: Share of the digits 0 to 4 in the first colour, and of the others in the second.

    Returns:
        Images (n, 128), two channels of pixels in [0, 1] one after the other; colours (n,), private; digits (n,).
    """
    digits = need("sklearn.datasets", "deep").load_digits()
    rng = np.random.default_rng(seed)
    expected = digits.target >= 5
    colour = np.where(rng.random(len(expected)) < agreement, expected, ~expected).astype(np.int64)
    pixels = (digits.data / 16.0).astype(np.float32)
    images = np.concatenate([pixels * (colour == 0)[:, None], pixels * (colour == 1)[:, None]], axis=1)
    return images.astype(np.float32), colour, digits.target.astype(np.int64)


def images(x: NDArray[np.float32], s: Array, u: Array | None = None) -> Dataset:
    """Flat images in units of the deviation of all pixels together, with codes of what is private and useful."""
    scaled = ((x - x.mean()) / x.std()).astype(np.float32)
    codes = [np.asarray(part, dtype=np.int64) for part in (s, *([] if u is None else [u]))]
    sizes = [int(part.max()) + 1 for part in codes]
    hot = [np.eye(k, dtype=np.float32)[part] for part, k in zip(codes, sizes, strict=True)]
    return Dataset(Rows(scaled, *hot), Variables(Layout(x.shape[1]), *(Layout(0, (k,)) for k in sizes)))

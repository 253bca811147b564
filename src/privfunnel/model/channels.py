"""Operations on channels p(y|x), shape (M, N), rows sum to 1, that leave or mix the two informations exactly.

Channels of more than :data:`DENSE_ENTRIES` entries are SciPy sparse arrays; mixing with one gives one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import SUM_TOLERANCE, as_table
from privfunnel.measures import Array, Channel

#: A channel of more entries than this, M·N, is held as a sparse array.
DENSE_ENTRIES = 10_000_000
#: A share of the time that is rounding, not a share.
NEGLIGIBLE = 1e-14


def identity(n_x: int) -> Any:
    """Release X itself: disclosure H(X), leakage I(S;X)."""
    return np.eye(n_x) if n_x * n_x <= DENSE_ENTRIES else sparse.csc_array(sparse.eye_array(n_x))


def is_sparse(channel: Channel) -> bool:
    """Whether a table is a SciPy sparse one."""
    return bool(sparse.issparse(channel))


def entries_of(channel: Channel) -> Array:
    """The values that a table holds, in any order: all of an array, those that are stored of a sparse one."""
    return np.asarray(channel.data if sparse.issparse(channel) else channel)  # type: ignore[attr-defined]


def joint(p_x: Array, channel: Channel) -> Any:
    """p(x, y), shape (M, N), as dense as the channel."""
    if sparse.issparse(channel):
        return sparse.csr_array(channel.multiply(p_x[:, None]))  # type: ignore[attr-defined]
    return np.asarray(channel * p_x[:, None])


def as_held(channel: Channel) -> Any:
    """A sparse channel as it is held and handed on: an array up to :data:`DENSE_ENTRIES` entries."""
    small = channel.shape[0] * channel.shape[1] <= DENSE_ENTRIES
    return np.asarray(channel.toarray()) if small else sparse.csc_array(channel)


def constant(n_x: int) -> Array:
    """Release nothing: one output, disclosure and leakage 0."""
    return np.ones((n_x, 1))


def time_share(channels: Sequence[Any], weights: Sequence[float]) -> Any:
    """Use channel c with probability ``weights[c]`` and reveal which: both informations average linearly.

    What is used less often than rounding can tell from never is not used: its outputs would tell of nobody.
    """
    shares = np.asarray(weights, dtype=np.float64)
    shares = np.where(shares > NEGLIGIBLE * shares.sum(), shares, 0.0)
    shares = shares / shares.sum()
    parts = [share * channel for share, channel in zip(shares, channels, strict=True) if share > 0.0]
    if any(sparse.issparse(part) for part in parts):
        return _merge_sparse(sparse.csc_array(sparse.hstack(parts, format="csc")))
    return merge_outputs(np.hstack(parts))


def mixed_with_all(channel: Channel, share: float) -> Channel:
    """A channel time-shared with X itself, which is released with probability ``share``.

    X itself is sparse here: to merge the outputs of a dense one takes longer than all else on a large table.
    """
    whole = sparse.eye_array(channel.shape[0], format="csc")
    return as_held(time_share([channel, whole], [1.0 - share, share]))


def paired(first: Any, second: Any) -> Any:
    """p(y|x) p(z|x) of two sparse channels (M, N) as one channel of the pairs (y, z) that occur; rows sum to 1.

    Pairs with the same posterior are merged; an array up to :data:`DENSE_ENTRIES` entries.
    """
    width = second.shape[1]
    rows, pairs, values = [], [], []
    for x in range(first.shape[0]):
        one, other = slice(*first.indptr[x : x + 2]), slice(*second.indptr[x : x + 2])
        pair = np.add.outer(first.indices[one].astype(np.int64) * width, second.indices[other]).reshape(-1)
        pairs.append(pair)
        values.append(np.outer(first.data[one], second.data[other]).reshape(-1))
        rows.append(np.full(pair.size, x))
    used, number = np.unique(np.concatenate(pairs), return_inverse=True)
    table = sparse.csc_array(
        (np.concatenate(values), (np.concatenate(rows), number.reshape(-1))),
        shape=(first.shape[0], used.size),
    )
    held = as_held(table)
    return merge_outputs(held) if isinstance(held, np.ndarray) else _merge_sparse(held)


def _merge_sparse(channel: Channel) -> Any:
    """:func:`merge_outputs` for a sparse array (M, N): those outputs are merged that tell the same one symbol."""
    channel.eliminate_zeros()
    entries = np.diff(channel.indptr)
    columns = channel.shape[1]
    # Outputs of one symbol are numbered by it, behind all others; unused numbers fall away.
    target = np.arange(columns)
    alone = entries == 1
    target[alone] = columns + channel.indices[channel.indptr[:-1][alone]]
    kept, number = np.unique(target[entries > 0], return_inverse=True)
    chosen = np.zeros((columns,), dtype=np.intp)
    chosen[entries > 0] = number
    merger = sparse.csc_array(
        ((entries > 0).astype(np.float64), (np.arange(columns), chosen)), shape=(columns, kept.size)
    )
    merged = channel @ merger
    return sparse.csc_array(sparse.diags_array(1.0 / merged.sum(axis=1)) @ merged)


def merge_outputs(channel: Array, tolerance: float = 1e-13) -> Array:
    """Drop outputs that never occur and merge those with the same posterior; neither information changes.

    Two columns of p(y|x) that are proportional have the same posterior p(x|y). Columns are compared after division by
    their sum, to ``tolerance`` in every entry. The first of each group keeps its place.
    """
    channel = channel[:, channel.sum(axis=0) > 0.0]
    shapes = channel / channel.sum(axis=0)
    crowded = _near_another(shapes, tolerance)
    group = np.arange(channel.shape[1])
    kept: list[int] = []
    for j in np.flatnonzero(crowded):
        far = np.abs(shapes[:, kept] - shapes[:, [j]]).max(axis=0, initial=0.0)
        same = np.flatnonzero(far <= tolerance)
        if same.size:
            group[j] = kept[int(same[0])]
        else:
            kept.append(int(j))
    out = channel.copy()
    for j in np.flatnonzero(group != np.arange(group.size)):
        out[:, group[j]] += channel[:, j]
    out = np.ascontiguousarray(out[:, group == np.arange(group.size)])
    return np.asarray(out / out.sum(axis=1, keepdims=True))


def _near_another(shapes: Array, tolerance: float) -> NDArray[np.bool_]:
    """Which columns may agree with another one to ``tolerance``: all others differ in one weighted sum already."""
    n_x, n_y = shapes.shape
    # The golden ratio: fractional parts of its multiples are spread evenly.
    weights = np.modf(np.arange(1, n_x + 1) * 1.618033988749895)[0]
    sums = weights @ shapes
    order = np.argsort(sums, kind="stable")
    close = np.diff(sums[order]) <= (tolerance + float(np.finfo(np.float64).eps)) * n_x
    near = np.zeros(n_y, dtype=bool)
    near[order[1:]] |= close
    near[order[:-1]] |= close
    return near


def from_posteriors(p_y: Array, p_x_given_y: Array, p_x: Array) -> Array:
    """The channel ``p(y|x) = p(y) p(x|y) / p(x)`` of weights (N,) on posteriors (M, N); rows normalised exactly."""
    channel = p_x_given_y * p_y / p_x[:, None]
    return np.asarray(channel / channel.sum(axis=1, keepdims=True))


def to_stored(channel: Channel) -> Any:
    """A channel as files hold it: its rows, or shape, rows, columns and values of the entries of a sparse one."""
    if isinstance(channel, np.ndarray):
        return channel.tolist()
    rows, columns, values = sparse.find(channel)
    return {
        "shape": list(channel.shape),
        "rows": rows.tolist(),
        "columns": columns.tolist(),
        "values": values.tolist(),
    }


def from_stored(stored: object) -> Any:
    """What :func:`to_stored` wrote."""
    if not isinstance(stored, dict):
        return stored
    places = (stored["rows"], stored["columns"])
    return sparse.csc_array((stored["values"], places), shape=tuple(stored["shape"]))


def checked(channel: Channel, kept_x: NDArray[np.bool_]) -> Any:
    """A channel p(y|x) with the rows of dropped symbols left out and rows that sum to 1 exactly; shape (M, N).

    Args:
        channel: An array or a SciPy sparse array, with a row for each symbol given, or for each that is kept.
        kept_x: Which of the public symbols given are kept.

    Raises:
        InvalidInputError: It has other rows, or they do not sum to 1 within 1e-6.
    """
    channel = _as_sparse(channel) if sparse.issparse(channel) else as_table(channel, "channel")
    n_x = int(kept_x.sum())
    if channel.shape[0] == kept_x.size:
        channel = channel[kept_x]
    if channel.shape[0] != n_x:
        raise InvalidInputError(
            f"channel has {channel.shape[0]} rows for {n_x} public symbols: give p(y|x), a row for each symbol"
        )
    sums = channel.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1.0)))
    if abs(sums[worst] - 1.0) > SUM_TOLERANCE:
        raise InvalidInputError(
            f"row {worst} of the channel sums to {sums[worst]:.9g}, not to 1: rows are p(y|x)"
        )
    if isinstance(channel, np.ndarray):
        return np.asarray(channel / sums[:, None])
    return channel.multiply(1.0 / sums[:, None]).tocsc()


def restored(channel: Channel, p_x: Array, kept_x: NDArray[np.bool_]) -> Any:
    """A channel (M, N) with rows for dropped symbols, which release Y drawn from p(y)."""
    if kept_x.all():
        return channel
    if not isinstance(channel, np.ndarray):
        marginal = sparse.csr_array((p_x @ channel)[None, :])
        rows = np.cumsum(kept_x) - 1
        return sparse.vstack([channel, marginal]).tocsr()[np.where(kept_x, rows, p_x.size)]
    full = np.tile(p_x @ channel, (kept_x.size, 1))
    full[kept_x] = channel
    return full


def _as_sparse(channel: Channel) -> Any:
    """A sparse channel as float64 columns, or InvalidInputError where an entry is no probability."""
    columns = sparse.csc_array(channel, dtype=np.float64)
    if columns.shape[0] * columns.shape[1] == 0:
        raise InvalidInputError(f"channel has shape {columns.shape}: give a matrix with rows and columns")
    bad = ~(np.isfinite(columns.data) & (columns.data >= 0.0))
    if bad.any():
        raise InvalidInputError(
            f"channel has the entry {columns.data[bad][0]:g}: entries must be finite and ≥ 0"
        )
    return columns

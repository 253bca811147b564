"""The channel of a mechanism as its file holds it: its entries above 0, or classes and the channel of the classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from privfunnel.data.engines.categories import Codes
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document
from privfunnel.measures import Array, Channel
from privfunnel.model.channels import entries_of, from_stored, is_sparse, to_stored
from privfunnel.model.coupling import Index, couple


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes that a sparse channel was made of, which is how its file holds it: :mod:`privfunnel.model.coupling`.

    Attributes:
        of_x: Class of each public symbol, shape (M,).
        channel: p(y|t) of the classes, shape (C, N_T).
        share: How often an output is released.
        outputs: The output of the classes that each released symbol belongs to, shape (N,).
    """

    of_x: Index
    channel: Channel
    share: float
    outputs: Index


class Read(NamedTuple):
    """What a file says about the released symbols: p(y|x), shape (M, N), p(s|y), shape (K, N), and classes."""

    channel: Channel
    p_s_given_y: Array
    classes: Classes | None


def stored_channel(channel: Channel, p_s_given_y: Array, classes: Classes | None) -> Document:
    """Entries of a mechanism's file, JSON-ready."""
    if classes is not None:
        outputs, first = np.unique(classes.outputs, return_index=True)
        return {
            "outputs": outputs.tolist(),
            "p_s_given_y": p_s_given_y[:, first].tolist(),
            "classes": classes.of_x.tolist(),
            "share": classes.share,
            "class_channel": to_stored(classes.channel),
        }
    # Most of a good channel is zeros; the others are written as they are, so that reading gives the same bits.
    rows, columns, values = _entries(channel)
    return {
        "p_s_given_y": p_s_given_y.tolist(),
        "channel": {
            "shape": list(channel.shape),
            "x": rows.tolist(),
            "y": columns.tolist(),
            "p": values.tolist(),
        },
    }


def read_channel(data: Mapping[str, Any], p_x: Array, n_x: int) -> Read:
    """Read back what :func:`stored_channel` wrote into a mechanism's file.

    Args:
        data: The file.
        p_x: p(x) from the file.
        n_x: M, from the symbols that it lists.

    Raises:
        InvalidInputError: Something does not fit.
    """
    p_s_given_y = np.asarray(data["p_s_given_y"], dtype=np.float64)
    if p_s_given_y.ndim != 2:
        raise InvalidInputError("p_s_given_y of the mechanism is no table: the file was changed")
    if "classes" in data:
        channel, classes = _coupled(data, p_x, n_x)
        return Read(channel, p_s_given_y[:, _places(data["outputs"], classes.outputs)], classes)
    shape = (n_x, p_s_given_y.shape[1])
    return Read(_channel(data["channel"], shape, dense=not data["sparse"]), p_s_given_y, None)


def codes(values: object) -> Codes:
    """Whole numbers from a file."""
    found = np.asarray(values)
    # 0.5 and true would be rounded to some symbol without a word.
    if found.size and found.dtype.kind != "i":
        raise InvalidInputError("the mechanism's symbols are not whole numbers: the file was changed")
    return found.astype(np.int64)


def _entries(channel: Channel) -> tuple[Index, Index, Array]:
    """Rows, columns and values of the entries above 0; an array's row by row, a sparse one's column by column."""
    if is_sparse(channel):
        entries: Any = channel.tocsc().tocoo()
        return (*entries.coords, entries.data)
    rows, columns = np.nonzero(channel)
    return rows, columns, channel[rows, columns]


def _places(known: object, wanted: Index) -> Index:
    """Where each of ``wanted`` is in the sorted list ``known``."""
    listed = codes(known)
    found = np.searchsorted(listed, wanted)
    if listed.size == 0 or (found >= listed.size).any() or (listed[found] != wanted).any():
        raise InvalidInputError("outputs of the mechanism do not fit its channel: the file was changed")
    return found


def _coupled(data: Mapping[str, Any], p_x: Array, n_x: int) -> tuple[Channel, Classes]:
    """The channel of a file that holds classes, and the classes."""
    of_x, share = codes(data["classes"]).astype(np.intp), data["share"]
    stored = from_stored(data["class_channel"])
    channel: Channel = stored if is_sparse(stored) else np.asarray(stored, dtype=np.float64)
    numbered = of_x.ndim == 1 and of_x.size and np.array_equal(np.unique(of_x), np.arange(of_x.max() + 1))
    wrong = {
        "classes": not numbered or of_x.size != n_x or channel.ndim != 2,
        "p_x": p_x.shape != (n_x,) or not (p_x > 0.0).all(),
        "share": not is_number(share) or not 0.0 <= share <= 1.0,
    }
    if not any(wrong.values()):
        values = entries_of(channel)
        wrong["class_channel"] = (
            channel.shape[0] != int(of_x.max()) + 1
            or not np.isfinite(values).all()
            or bool((values < 0.0).any())
            # Rows of a stored channel sum to 1 within this.
            or float(np.abs(channel.sum(axis=1) - 1.0).max()) > 1e-9
        )
    for name, found in wrong.items():
        if found:
            raise InvalidInputError(f"{name} of the mechanism cannot be used: the file was changed")
    lifted, outputs = couple(of_x, p_x, channel, float(share))
    return lifted, Classes(of_x, channel, float(share), outputs)


def _channel(data: Mapping[str, Any], shape: tuple[int, int], *, dense: bool) -> Channel:
    """The channel from its nonzero entries; the shape is known from the labels, before memory is asked for."""
    if list(data["shape"]) != list(shape):
        raise InvalidInputError(
            f"channel of the mechanism has the shape {data['shape']!r}, its symbols need {list(shape)}: "
            "the file was changed"
        )
    x, y = codes(data["x"]), codes(data["y"])
    # NumPy counts negative positions from the end.
    if (x < 0).any() or (y < 0).any():
        raise InvalidInputError("channel of the mechanism has negative positions: the file was changed")
    if not dense:
        return sparse.csc_array((np.asarray(data["p"], dtype=np.float64), (x, y)), shape=shape)
    channel = np.zeros(shape)
    channel[x, y] = data["p"]
    return channel


def is_number(value: object) -> bool:
    """Whether a value of a JSON file is a number."""
    # JSON's true is an int to Python.
    return isinstance(value, int | float) and not isinstance(value, bool)

"""A binary table: two private symbols, public symbols sorted by p(s=1|x), those with equal p(s=1|x) in one class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array

Index = NDArray[np.intp]

#: Two probabilities p(s=1|x) this close are the same number computed in two ways.
SAME = 4.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True, eq=False)
class BinaryTable:
    """The public symbols of a binary funnel in classes of equal p(s=1|x), classes in ascending order.

    Attributes:
        p_x: p(x), shape (M,), as given.
        rates: p(s=1|x), shape (M,), as given.
        order: The symbols sorted by class, shape (M,).
        begins: Where each class begins in ``order``, and M at the end, shape (n + 1,).
        mass: Probability of each class, shape (n,).
        pi: p(s=1|class), shape (n,), ascending.
        rho: p(s=0|class) = 1 − pi, shape (n,), as accurate near pi = 1 as pi is near 0.
    """

    p_x: Array
    rates: Array
    order: Index
    begins: Index
    mass: Array
    pi: Array
    rho: Array

    @property
    def n_classes(self) -> int:
        """n, the number of different p(s=1|x)."""
        return int(self.pi.size)

    @property
    def class_of(self) -> Index:
        """The class of each symbol, shape (M,)."""
        out = np.empty(self.order.size, dtype=np.intp)
        out[self.order] = np.repeat(np.arange(self.n_classes), np.diff(self.begins))
        return out


def check_table(p_sx: ArrayLike) -> Array:
    """``p_sx`` as a table of two rows without empty columns.

    Raises:
        InvalidInputError: It is not.
    """
    table = np.asarray(p_sx, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != 2:
        raise InvalidInputError(
            f"p_sx has shape {table.shape}, but the binary funnel needs (2, M): use another solver for other K"
        )
    if not (np.all(np.isfinite(table)) and np.all(table >= 0.0) and np.all(table.sum(axis=0) > 0.0)):
        raise InvalidInputError(
            "p_sx has an entry that is negative or not finite, or an empty column: drop empty columns (Problem does)"
        )
    return table


def binary_table(p_sx: ArrayLike) -> BinaryTable:
    """Sort and merge the public symbols of p(s, x), shape (2, M); O(M log M).

    Probabilities p(s=1|x) that differ by rounding only are one class: counts 1 of 3 and 2 of 6, say. A class has the
    mean of its members.
    """
    table = check_table(p_sx)
    p_x = table.sum(axis=0)
    rates = table[1] / p_x
    order = np.argsort(rates, kind="stable")
    inner = rates[order]
    # What differs by rounding in p(s=1|x) may be far apart in p(s=0|x) near 1, and the other way round: both count.
    scale = np.minimum(inner[1:], (table[0] / p_x)[order][:-1])
    begins = np.concatenate([[0], 1 + np.flatnonzero(np.diff(inner) > SAME * scale), [inner.size]])
    sums = np.add.reduceat(table[:, order], begins[:-1], axis=1)
    mass = sums.sum(axis=0)
    return BinaryTable(
        p_x=p_x,
        rates=rates,
        order=order,
        begins=begins,
        mass=mass,
        pi=sums[1] / mass,
        rho=sums[0] / mass,
    )

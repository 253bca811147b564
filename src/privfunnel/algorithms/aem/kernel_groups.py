"""What travels together through the compiled loops of AEM.

numba passes a NamedTuple as the arrays it consists of. Only the functions that loop over entries take it apart, and
before the loop; the others hand it on whole, because each array that is taken out has its references counted.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.aem.state import Tables
from privfunnel.measures import Array

Index = NDArray[np.int64]


class Nonzeros(NamedTuple):
    """The nonzeros of p(s|x), symbol by symbol of X.

    Attributes:
        first: Where the nonzeros of symbol i of X begin in ``symbol`` and ``value``, shape (M,).
        length: How many there are, shape (M,).
        symbol: The private symbol k of each nonzero.
        value: p(s_k|x_i) of each nonzero.
    """

    first: Index
    length: Index
    symbol: Index
    value: Array

    @classmethod
    def of(cls, p_s_given_x: Array) -> Nonzeros:
        """The nonzeros of p(s|x) (K, M)."""
        x, s = np.nonzero(p_s_given_x.T)
        length = np.bincount(x, minlength=p_s_given_x.shape[1]).astype(np.int64)
        first = (np.cumsum(length) - length).astype(np.int64)
        return cls(first, length, s.astype(np.int64), p_s_given_x[s, x])


class KernelTables(NamedTuple):
    """What all runs of one problem share: :class:`privfunnel.algorithms.aem.state.Tables` as the loops read them.

    Attributes:
        nonzeros: Those of p(s|x).
        p_x: p(x), shape (M,).
        log_p_x: log p(x), shape (M,).
        log_p_s: log p(s), shape (K,).
        root_tolerance: How far above 0 the accepted G may lie, nats.
    """

    nonzeros: Nonzeros
    p_x: Array
    log_p_x: Array
    log_p_s: Array
    root_tolerance: float

    @classmethod
    def of(cls, tables: Tables) -> KernelTables:
        """The problem's tables for the compiled loops."""
        return cls(
            Nonzeros.of(tables.p_s_given_x),
            tables.p_x,
            tables.log_p_x,
            tables.log_p_s,
            tables.root_tolerance(),
        )


class Exponents(NamedTuple):
    """The update (1) as a function of λ: its exponents are base + λ log w.

    Attributes:
        base: The part that λ does not multiply (2), shape (M, N).
        log_w: The part that it does, log p(x|y), shape (M, N).
    """

    base: Array
    log_w: Array


class AnyExponents(Protocol):
    """Whatever has the fields of :class:`Exponents`."""

    @property
    def base(self) -> Array: ...  # noqa: D102

    @property
    def log_w(self) -> Array: ...  # noqa: D102


class Rows(NamedTuple):
    """A point p(x, y) = ``scale``·``weight``, row by row, with the constants of its rows.

    Attributes:
        weight: exp(exponent − top), shape (M, N).
        total: Row sums of ``weight``, shape (M,).
        top: What was subtracted from the exponents of each row, shape (M,).
        scale: What the weights of each row are multiplied by, shape (M,).
        shift: What is added to the exponents of each row to give log p(x, y), shape (M,).
    """

    weight: Array
    total: Array
    top: Array
    scale: Array
    shift: Array


class Outputs(NamedTuple):
    """What a point says of the outputs.

    Attributes:
        p_sy: p(s, y), shape (K, N).
        log_t: log p(s|y), 0 where p(s, y) is 0, shape (K, N).
        log_r: log p(y), 0 where p(y) is 0, shape (N,).
    """

    p_sy: Array
    log_t: Array
    log_r: Array

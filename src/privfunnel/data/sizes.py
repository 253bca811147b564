"""What the default solver takes for a table, before it is asked to solve it."""

from __future__ import annotations

from dataclasses import dataclass

from privfunnel.infra.jit import compiles
from privfunnel.measures import Array
from privfunnel.model.equal_symbols import LUMPED_BEYOND, classes_of

#: Seconds after which a point is left unproved: the default solver's limit and what coarser tables get.
TIME_LIMIT = 28.0


@dataclass(frozen=True)
class Size:
    """How large the funnel problem is, and what the default solver takes for it (orders of magnitude).

    Attributes:
        n_s: K, ``n_x`` M: the sizes of the alphabets.
        n_classes: C ≤ M, the public symbols that differ in p(s|x): what the solver has to deal with.
        memory: Bytes, besides those of the libraries.
        seconds: Seconds a point.
        plain: Whether they are those of plain Python, for want of compiled kernels.
    """

    n_s: int
    n_x: int
    n_classes: int
    memory: float
    seconds: float
    plain: bool = False

    @property
    def limited(self) -> bool:
        """Whether proofs are expected to stop at the default solver's time limit, with a gap left."""
        return self.seconds >= TIME_LIMIT

    def __str__(self) -> str:
        """One readable line."""
        time = f"{self.seconds:.0f} s" if self.seconds < 120 else f"{self.seconds / 60:.0f} min"
        time = time if self.seconds < 7200 else f"{self.seconds / 3600:.0f} h"
        classes = "" if self.n_classes == self.n_x else f" in {self.n_classes} classes"
        return f"{self.n_s} × {self.n_x} symbols{classes}, about {self.memory / 2**20:.0f} MiB and {time} a point"


def size_of(table: Array) -> Size:
    """The size of the problem with this table of counts (K, M), and what the default solver takes, roughly.

    The numbers in here were measured on random tables of up to a thousand public symbols: orders of magnitude.
    The seconds are those of compiled kernels where numba is there, of plain Python where it is not: what is too much to
    ask is decided by the installation, not by a clock.
    """
    n_s, n_x = table.shape
    plain = not compiles()
    times = 40.0 if plain else 1.0  # as long as with numba
    classes = int(classes_of(table).max()) + 1
    pairs = classes * (classes + 1.0)
    if n_s == 2 and classes > LUMPED_BEYOND:
        memory = 8.0 * (100 * classes + 3.0 * n_s * n_x)  # a hundred numbers a class
        return Size(n_s, n_x, classes, memory, times * 4e-4 * classes, plain)
    memory = 8.0 * (20 * pairs + 3.0 * n_s * n_x)  # twenty M × M arrays at the peak
    proof = times * 1.5e-4 * pairs
    screening = 5e-7 * n_s * pairs  # comparing public symbols, before the clock starts
    return Size(n_s, n_x, classes, memory, min(proof, TIME_LIMIT) + screening, plain)

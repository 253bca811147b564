"""The parts of proofs about prices: each proves F ≥ ``claim`` on the simplex of some symbols, by one kind of argument.

A tree proves it on one component or in one stratum; the others prove it for a whole table at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from privfunnel.certificate.archive import Archive
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, Arrays

#: The kinds of parts by their name in files.
PARTS: dict[str, type[Part]] = {}


class Part(ABC):
    """One part; a kind is a frozen dataclass that derives from this, beside its arithmetic.

    Attributes:
        kind: Its name in files.
        claim: The value proved, in nats.
    """

    kind: ClassVar[str]

    if TYPE_CHECKING:  # a field of most, and a property of those that are made of others

        @property
        def claim(self) -> float:
            """The value proved, in nats."""
            ...

    def __init_subclass__(cls) -> None:
        """Register the kind."""
        PARTS[cls.kind] = cls

    @property
    @abstractmethod
    def n_nodes(self) -> int:
        """Number of boxes."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """All that is stored but for the claim, by name."""

    @classmethod
    @abstractmethod
    def read(cls, archive: Archive, place: str, claim: float) -> Self:
        """What :meth:`arrays` gave, each name behind ``place`` and a dot, from a file of unknown origin."""

    def check_alone(self, columns: Array, prices: Array, slope: float, spread: float) -> None:
        """Raise CertificateError unless it proves its claim for a whole table by itself.

        Args:
            columns: p(s|x) of the table's symbols, shape (K, C).
            prices: a, shape (C,).
            slope: μ.
            spread: How far the columns of one cell lie from that which stands for them.
        """
        raise CertificateError("the certificate mixes trees and other proofs: it is damaged")


def packed(parts: Sequence[Part]) -> Arrays:
    """All that is stored of some parts, by name."""
    made: Arrays = {
        "kinds": np.array([part.kind for part in parts], dtype=np.str_),
        "claims": np.array([part.claim for part in parts], dtype=np.float64),
    }
    for number, part in enumerate(parts):
        made |= {f"{number}.{name}": array for name, array in part.arrays().items()}
    return made


def unpacked(archive: Archive, place: str) -> tuple[Part, ...]:
    """What :func:`packed` gave, from a file of unknown origin.

    Raises:
        KeyError: Something is missing, or there is no such kind.
        ValueError: Something is damaged.
    """
    said = zip(archive[f"{place}.kinds"].tolist(), archive.floats(f"{place}.claims").tolist(), strict=True)
    return tuple(
        PARTS[str(kind)].read(archive, f"{place}.{number}", float(claim))
        for number, (kind, claim) in enumerate(said)
    )

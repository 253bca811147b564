"""The strata of a mechanism with published columns: the public symbols that agree on them.

A released symbol belongs to one stratum, so that it says what is published. A row whose combination of values was not
seen at design time must not leave its own: it is drawn from p(y|a), or for the nearest symbol that agrees on a.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privfunnel.data.engines import Alphabet
from privfunnel.data.engines.alphabet import distinct
from privfunnel.data.engines.categories import Codes
from privfunnel.measures import Array
from privfunnel.release.mechanism import Mechanism


@dataclass(frozen=True, eq=False)
class Strata:
    """The strata of the published columns A.

    Attributes:
        places: Where the published columns are among the public ones.
        alphabet: The values a of A, one symbol a stratum.
        of_x: The stratum of each public symbol, shape (M,).
        p_y: p(y|a), shape (strata, N).
    """

    places: tuple[int, ...]
    alphabet: Alphabet
    of_x: Codes
    p_y: Array

    @classmethod
    def of(cls, mechanism: Mechanism) -> Strata:
        """The strata of a mechanism; one, of all symbols, where nothing is published."""
        names = mechanism.public_names
        places = tuple(names.index(name) for name in mechanism.published)
        codes, of_x = distinct(mechanism.x_codes[:, places])
        mass = np.bincount(of_x, mechanism.p_x, len(codes))
        p_ya = np.zeros((len(codes), mechanism.n_y))
        for a in range(len(codes)):
            p_ya[a] = np.where(of_x == a, mechanism.p_x, 0.0) @ mechanism.channel
        columns = tuple(mechanism.public[j] for j in places)
        return cls(places, Alphabet(columns, codes), of_x, p_ya / mass[:, None])

    def recognise(self, codes: Sequence[Codes]) -> Codes:
        """The stratum of rows given as one array of codes for each public column; −1 where it is new."""
        if not self.places:
            return np.zeros(len(codes[0]), dtype=np.int64)
        return self.alphabet.recogniser()([codes[j] for j in self.places])

    def locate(self, other: Alphabet) -> Codes:
        """The stratum of each symbol of another table with the same public columns, by label; −1 where it is new."""
        if not self.places:
            return np.zeros(len(other), dtype=np.int64)
        columns = tuple(other.columns[j] for j in self.places)
        return self.alphabet.places(Alphabet(columns, other.codes[:, self.places]))

    def drawn(self, mechanism: Mechanism, strata: Codes) -> Any:
        """p(y|a) for rows of these strata, p(y) for −1, shape (rows, N)."""
        return np.where((strata < 0)[:, None], mechanism.p_y[None, :], self.p_y[np.maximum(strata, 0)])

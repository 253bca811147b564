"""One draw for a person: rows of one person with the same public values get the same symbol and the same record.

Rows drawn one by one would be several draws of one secret, and together they tell more than one. The randomness of such
rows is computed from who they are about, by a keyed hash whose key lives as long as the release is made: no list of
persons is held, and every executor of Spark gives a person the same.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines.categories import Codes, canonical, text
from privfunnel.infra.checks import check_seed
from privfunnel.measures import Array
from privfunnel.release.randomness import Uniforms

KEY_BYTES = 32
#: Uniform numbers in one hash of 64 bytes.
IN_BLOCK = 8
#: Persons and public symbols of which a tally remembers that they met; beyond, it goes on with an even sample.
REMEMBERED = 2**20

Hashes = NDArray[np.uint64]
Bits = NDArray[np.uint64]


@dataclass(frozen=True)
class PersonSummary:
    """Whom the rows of a release are about.

    Attributes:
        column: The column that says so.
        persons: How many persons; a row without a name is one of its own.
        varying: Those whose rows differ in their public values, so that they have several draws.
        exact: Whether the two were counted; otherwise they were estimated from an even sample of the persons.
    """

    column: str
    persons: int
    varying: int
    exact: bool

    @property
    def line(self) -> str:
        """How many there are, and how many have several draws, in short."""
        about = "" if self.exact else "about "
        several = (
            f", {about}{self.varying:,} of them with several draws" if self.varying else ", each drawn once"
        )
        return f"{about}{self.persons:,} ({self.column}){several}."

    @property
    def words(self) -> str:
        """How many there are, and what several draws mean."""
        about = "" if self.exact else "about "
        told = f"{about}{self.persons:,} persons ({self.column})"
        if self.varying == 0:
            return f"{told}, each drawn once."
        return (
            f"{told}; {about}{self.varying:,} of them have rows with different public values, which are drawn one by "
            "one: together such rows tell more of a person than the promise, which is for one draw."
        )


class PersonDraws:
    """Uniform numbers that are the same for rows of one person with the same public symbol.

    Args:
        column: The column that says who a row is about.
        seed: For experiments; the key comes from the operating system without it.
    """

    #: Uniform numbers in one hash.
    in_block = IN_BLOCK

    def __init__(self, column: str, seed: int | None) -> None:
        """Make the key."""
        self.column = column
        if seed is not None:
            check_seed(seed)
        self.key = (
            os.urandom(KEY_BYTES) if seed is None else hashlib.sha256(f"person {seed}".encode()).digest()
        )

    def rows(self, persons: Any, x: Codes, uniforms: Uniforms, tally: PersonTally) -> RowRandomness:
        """The numbers of a batch.

        Args:
            persons: Arrow array of who each row is about; a row without a name is a person of its own.
            x: The public symbols of the rows.
            uniforms: Numbers for rows without a name.
            tally: Told who was met.
        """
        coded = persons.dictionary_encode()
        names = self._names(coded.dictionary)
        told = np.array([name is not None for name in names] + [False])  # the last is for null
        at = coded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False).astype(np.int64)
        named = np.flatnonzero(told[at])
        width = int(x.max(initial=0)) + 1
        pairs, rows = np.unique(at[named] * width + x[named], return_inverse=True)
        who, symbols = np.divmod(pairs, width)
        # A number has no colon, so that no two pairs make one message.
        messages = [
            f"{symbol}:{names[i]}".encode("utf-8", "surrogatepass")
            for i, symbol in zip(who.tolist(), symbols.tolist(), strict=True)
        ]
        tally.add(self._hashes(names, who), symbols, len(x) - len(named))
        return RowRandomness(self, messages, named, rows.reshape(-1), uniforms)

    def block(self, messages: list[bytes], number: int) -> bytes:
        """The hashes of ``messages``, ``in_block`` numbers of 64 bits each; another ``number`` gives others."""
        salt = number.to_bytes(8, "little")
        return b"".join(hashlib.blake2b(message, key=self.key, salt=salt).digest() for message in messages)

    def _names(self, values: Any) -> list[str | None]:
        """The texts of an Arrow array, by which persons are known in any engine or file format."""
        return [text(canonical(value)) for value in values.to_pylist()]

    def _hashes(self, names: list[str | None], at: Codes) -> Hashes:
        """One number of 64 bits for each person of ``at``, places in ``names``."""
        used, where = np.unique(at, return_inverse=True)
        digests = b"".join(
            hashlib.blake2b(
                (names[i] or "").encode("utf-8", "surrogatepass"), key=self.key, digest_size=8
            ).digest()
            for i in used.tolist()
        )
        return np.frombuffer(digests, dtype="<u8")[where.reshape(-1)]


class RowRandomness:
    """The numbers of the rows of one batch, call by call; see :class:`PersonDraws`.

    Args:
        draws: Who hashes.
        messages: What is hashed.
        named: Rows with a person; ``of_row`` the message of each of them.
        of_row: See there.
        others: Numbers for the other rows.
    """

    def __init__(
        self, draws: PersonDraws, messages: list[bytes], named: Codes, of_row: Codes, others: Uniforms
    ) -> None:
        """Nothing is hashed yet."""
        self.draws, self.messages, self.named, self.of_row, self.others = (
            draws,
            messages,
            named,
            of_row,
            others,
        )
        self.calls = 0
        self.block: Array = np.zeros((0, draws.in_block))
        self._hashed: dict[int, Bits] = {}

    def __call__(self, size: int) -> Array:
        """One number in [0, 1) for each row."""
        block, part = divmod(self.calls, self.draws.in_block)
        if part == 0:
            self.block = np.asarray((self.bits(block) >> np.uint64(11)) * 2.0**-53)
        self.calls += 1
        if len(self.named) == size:
            return np.asarray(self.block[self.of_row, part])
        found = self.others(size)
        found[self.named] = self.block[self.of_row, part]
        return found

    def bits(self, number: int) -> Bits:
        """The hashes of a block as numbers of 64 bits, one row a message; shape (messages, in_block)."""
        if number not in self._hashed:
            digests = self.draws.block(self.messages, number)
            self._hashed = {number: np.frombuffer(digests, dtype="<u8").reshape(-1, self.draws.in_block)}
        return self._hashed[number]


class PersonTally:
    """Counts persons, and those with several public symbols, at bounded memory.

    Pairs of person and symbol are remembered for the persons whose hash ends in ``level`` zeros: for all of them first,
    for every second one when there are too many, and so on; a person is remembered with all symbols or not at all.

    Args:
        remembered: Most pairs.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        """Nobody has been met."""
        self.remembered = remembered
        self.level, self.alone = 0, 0
        self.persons: Hashes = np.zeros(0, dtype=np.uint64)
        self.symbols: Codes = np.zeros(0, dtype=np.int64)

    def add(self, persons: Hashes, symbols: Codes, alone: int) -> None:
        """Meet pairs of persons, by their hashes, and public symbols, and rows without a person."""
        self.alone += alone
        persons, symbols = self._chosen(persons, symbols)
        self.persons = np.concatenate([self.persons, persons])
        self.symbols = np.concatenate([self.symbols, symbols])
        if len(self.persons) > 2 * self.remembered:
            self._tidy()

    def _chosen(self, persons: Hashes, symbols: Codes) -> tuple[Hashes, Codes]:
        mine = (persons & np.uint64((1 << self.level) - 1)) == 0
        return persons[mine], symbols[mine]

    def _tidy(self) -> None:
        """Forget repeated pairs, and persons where there are too many."""
        while True:
            order = np.lexsort((self.symbols, self.persons))
            persons, symbols = self.persons[order], self.symbols[order]
            new = np.ones(len(order), dtype=bool)
            new[1:] = (persons[1:] != persons[:-1]) | (symbols[1:] != symbols[:-1])
            self.persons, self.symbols = persons[new], symbols[new]
            if len(self.persons) <= self.remembered:
                return
            self.level += 1
            self.persons, self.symbols = self._chosen(self.persons, self.symbols)

    def summary(self, column: str) -> PersonSummary:
        """What was met."""
        self._tidy()
        _, pairs = np.unique(self.persons, return_counts=True)
        scale = 1 << self.level
        return PersonSummary(
            column, scale * len(pairs) + self.alone, scale * int((pairs > 1).sum()), exact=self.level == 0
        )

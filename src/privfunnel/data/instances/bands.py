"""Age bands of the census instance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privfunnel.errors import InvalidInputError

#: First and last single year of age in the census table.
CENSUS_AGES = (17, 90)


def equal_width(number: int, ages: tuple[int, int] = CENSUS_AGES) -> tuple[tuple[int, int], ...]:
    """Inclusive bands of equal width over the real interval ``ages``; 5 gives 17-31, 32-46, 47-60, 61-75, 76-90."""
    first, last = ages
    if isinstance(number, bool) or not 1 <= number <= last - first + 1:
        raise InvalidInputError(f"{number!r} age bands cannot be made: ask for 1 to {last - first + 1}")
    ends = [math.floor(first + (last - first) * (j + 1) / number) for j in range(number - 1)] + [last]
    starts = [first] + [end + 1 for end in ends[:-1]]
    return tuple(zip(starts, ends, strict=True))


@dataclass(frozen=True)
class Bands:
    """Inclusive age bands that cover :data:`CENSUS_AGES` exactly."""

    pairs: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, bands: int | Sequence[tuple[int, int]]) -> Bands:
        """Check what the caller gave: a number of equal-width bands, or the bands themselves."""
        if isinstance(bands, int):
            return cls(equal_width(bands))
        try:
            pairs = tuple((int(first), int(last)) for first, last in bands)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"bands = {bands!r} cannot be read: give a number, or pairs such as [(17, 40), (41, 90)]"
            ) from None
        expected = CENSUS_AGES[0]
        for first, last in pairs:
            if first != expected or last < first:
                raise InvalidInputError(
                    f"age band {first}-{last} does not follow on: the next one has to start at {expected}"
                )
            expected = last + 1
        if expected != CENSUS_AGES[1] + 1:
            raise InvalidInputError(
                f"the age bands end at {expected - 1}: they have to cover {CENSUS_AGES[0]} to {CENSUS_AGES[1]}"
            )
        return cls(pairs)

    @property
    def labels(self) -> tuple[str, ...]:
        """``"17-31"`` and so on; a single year is just that year."""
        return tuple(f"{first}-{last}" if first < last else str(first) for first, last in self.pairs)

    def index(self, age: int) -> int:
        """Position of the band that holds ``age``."""
        return next(i for i, (first, last) in enumerate(self.pairs) if first <= age <= last)

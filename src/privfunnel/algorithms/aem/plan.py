"""What an answer of AEM takes after its time is up, and how long it may."""

from __future__ import annotations

from typing import NamedTuple


class Plan(NamedTuple):
    """A share of the time limit, and seconds, some for a unit of work."""

    #: Of the time limit, that an answer may take when the time is up: what would take longer is not begun;
    late: float = 0.2
    #: and these seconds besides, so that short limits are no reason to refuse a small table.
    late_seconds: float = 1.0
    #: Seconds that it takes, about, for each entry of its channel,
    late_entry_seconds: float = 6e-7
    #: and for each of their products with p(s|x).
    late_product_seconds: float = 2e-9


PLAN = Plan()

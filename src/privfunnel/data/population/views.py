"""Two views of a table: it is the population (a register), or a sample from one.

In a register everybody of interest has a row, and what is counted is exact. In a sample the rows stand for other people
too, and what is counted is only an estimate for them; a design that was fitted to the rows errs on the optimistic side.
"""

from __future__ import annotations

from typing import Literal

from privfunnel import measures
from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array

View = Literal["register", "sample"]

#: Said of a sample where no rows are left that could judge a design. Audits, reports and the explorer say it alike.
NOTHING_CLAIMED = "About the population nothing is claimed"


def expected_bias(shape: tuple[int, int], n: float, information: float) -> float | None:
    """How much I(S;X) is expected to be too high where the rows are few for the cells, nats; None where they are not.

    Args:
        shape: K and M.
        n: Rows.
        information: I(S;X) of the rows, nats.
    """
    bias = measures.miller_madow_bias(*shape, n)
    # Expected bias of I(S;X) up to which no table counts as small, in nats.
    # Share of I(S;X) that the bias of a table that is not small may be.
    return bias if bias >= 0.005 and bias > 0.05 * information else None


def small_sample(
    rows_s: Array, n_x: int, information: float, *, pieces: tuple[int, str] | None = None, unit: str = "nats"
) -> str:
    """What few rows mean, as numbers to act on; an empty text where they are not few.

    Where the plug-in I(S;X) is expected to be all bias, no number of it is told: what is known is that it is at most
    H(S).

    Args:
        rows_s: Rows of each private symbol, shape (K,).
        n_x: M, the number of public symbols.
        information: I(S;X) of the rows, nats.
        pieces: Pieces of evidence where rows go together, how many and what they are: ``(120, "persons")``.
        unit: What amounts of information are told in, ``"nats"`` or ``"bits"``.
    """
    n_s, rows = len(rows_s), round(float(rows_s.sum()))
    n = rows if pieces is None else min(pieces[0], rows)
    bias = expected_bias((n_s, n_x), n, information)
    if bias is None:
        return ""
    from privfunnel.data.population.bounds import (
        guaranteed_outputs,  # loads optimisers, which few tables need
    )

    # Half of the rows design, half of them judge: what they can guarantee of a release that says nothing about S.
    p_s = rows_s / rows_s.sum()
    most = float(measures.entropy(p_s))
    unknown = bias >= information
    outputs = guaranteed_outputs(max(n // 2, 1), 0.5 * (most if unknown else information), p_s=p_s)
    guarantee = f"at most {outputs} outputs" if outputs > 1 else "no release of more than one output"
    whose, more = ("rows", "rows") if pieces is None else (f"{pieces[1]} ({rows} rows)", pieces[1])
    told, high, ceiling = (
        f"{nats / measures.nats_per(unit):.3f} {unit}" for nats in (information, bias, most)
    )
    known = f"I(S;X) = {told} is expected to be about {high} too high"
    if unknown:
        known = f"they cannot tell I(S;X), which is at most H(S) = {ceiling}"
    return (
        f"{n} {whose} for {n_s} × {n_x} cells are few: {known}, and "
        f"with half of these {more} to judge what the others design {guarantee} can be guaranteed to leak less than "
        f"half of it in the population; use fewer or coarser categories, or more {more}"
    )


def view_of(asked: str | None, shape: tuple[int, int], n: float | None, information: float) -> View:
    """The view that was asked for; by default a small table is a sample, and any other a register.

    Args:
        asked: ``"register"``, ``"sample"`` or None.
        shape: K and M.
        n: Rows, None where their number is not known.
        information: I(S;X) of the rows, nats.

    Raises:
        InvalidInputError: There is no such view.
    """
    if asked not in {None, "register", "sample"}:
        raise InvalidInputError(
            f"there is no view {asked!r}: choose register (the table is the population) or sample (from one)"
        )
    small = n is not None and expected_bias(shape, n, information) is not None
    return "sample" if asked == "sample" or (asked is None and small) else "register"

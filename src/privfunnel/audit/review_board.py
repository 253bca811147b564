"""Three questions that a review board asks of every release: singling out, linkability, inference.

They are those of the European data protection authorities (Article 29 working party, opinion 05/2014). Each has
its number, what proves it, and what it assumes. With n people in the table and a released symbol y,

    p(person i | y) = p(y|x_i) / (n p(y)),

the probability that the row with y is theirs, for somebody who has the public columns of everybody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from privfunnel import measures
from privfunnel.audit.informed import Informed, how_many
from privfunnel.measures import Array
from privfunnel.model.amounts import told
from privfunnel.release.ledger import Together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privfunnel.audit.result import Audit


@dataclass(frozen=True)
class Board:
    """What the three answers rest on.

    Attributes:
        people: n, rows of the table, or persons where they are known.
        singled_out: The largest p(person|y): how surely a released row can be one certain person's.
        singled_out_share: How often that symbol is released.
        linked: Σ_y max_x p(y|x) / n: the share of rows that are assigned to the right person by somebody who has the
            public columns of everybody and takes the likeliest one.
        linked_original: The same from the public columns as they are.
        lift: The largest p(s|y)/p(s), of the private symbol ``about`` and the most endangered released ``symbol``.
        about: See there.
        symbol: See there; ``symbol_share`` is how often it is released.
        symbol_share: See there.
        leakage: I(S;Y) in nats.
        maximal_leakage: log Σ_y max_s p(y|s), in nats.
        records: Whether the released records are drawn anew from the symbols that the numbers are about.
        informed: What attackers who know public columns learn from these symbols, where those of the audit see records.
    """

    people: int
    singled_out: float
    singled_out_share: float
    linked: float
    linked_original: float
    lift: float
    about: str
    symbol: str
    symbol_share: float
    leakage: float
    maximal_leakage: float
    records: bool = False
    informed: tuple[Informed, ...] = ()


class Question(NamedTuple):
    """One of the three questions: its name, the answer with its number, what proves it, and what it assumes."""

    name: str
    answer: str
    proof: str
    assumes: str


def board(
    p_xy: Any,
    p_sy: Array,
    people: float,
    labels: tuple[Sequence[str], Sequence[str]],
    *,
    records: bool = False,
) -> Board | None:
    """The numbers of a release; None where the number of people is not known.

    Args:
        p_xy: p(x, y), shape (M, N), dense or sparse.
        p_sy: p(s, y), shape (K, N), or p(s, record) where records are drawn from the symbols.
        people: How many there are.
        labels: Of the released and of the private symbols.
        records: Whether records are drawn anew from the symbols.
    """
    if not people >= 1.0:
        return None
    largest, mean, y = measures.pointing(p_xy)
    p_y = np.asarray(p_sy.sum(axis=0))
    lift = np.where(p_y > 0.0, measures.lift(p_sy), 0.0)
    s, at = (int(i) for i in np.unravel_index(int(np.argmax(lift)), lift.shape))
    n_x = int(np.count_nonzero(np.asarray(p_xy.sum(axis=1)) > 0.0))
    return Board(
        people=round(people),
        singled_out=min(largest / people, 1.0),
        singled_out_share=float(np.asarray(p_xy.sum(axis=0)).reshape(-1)[y]),
        linked=min(mean / people, 1.0),
        linked_original=min(n_x / people, 1.0),
        lift=float(lift[s, at]),
        about=labels[1][s],
        symbol=labels[0][at],
        symbol_share=float(p_y[at]),
        leakage=float(measures.mutual_information(p_sy)),
        maximal_leakage=float(measures.maximal_leakage(p_sy)),
        records=records,
    )


#: What the answers about persons assume.
KNOWS_EVERYBODY = (
    "The attacker has the public columns of everybody, knows who is in the table and how it was released, and sees one "
    "draw; each person counts once."
)


def questions(found: Audit) -> tuple[Question, ...]:
    """The three questions of an audit with their answers; none where the release is not a mechanism's."""
    if found.board is None:
        return ()
    return (
        _singling_out(found, found.board),
        _linkability(found, found.board),
        _inference(found, found.board),
    )


def knowing(found: Audit) -> tuple[Informed, ...]:
    """The attackers who know public columns, by the symbols that the board speaks of; who learns most comes first."""
    return (found.board.informed if found.board is not None else ()) or found.informed


def words(found: Audit) -> list[str]:
    """The answers in paragraphs."""
    return [
        f"{each.name}: {each.answer} Proof: {each.proof} It assumes: {each.assumes}"
        for each in questions(found)
    ]


def _singling_out(found: Audit, numbers: Board) -> Question:
    k = math.floor(1.0 / numbers.singled_out + 1e-9)
    among = f" (1 in {k:,})" if k > 1 else ""
    answer = (
        f"at worst a released row is one certain person's with probability {_percent(numbers.singled_out)}"
        f"{among}, by a symbol that {_percent(numbers.singled_out_share)} of the rows get; without the release 1 "
        f"in {numbers.people:,}."
    )
    asked = [text for text in _guaranteed(found) if text.startswith("k=")]
    proof = _counted(numbers) + (f" The design guarantees {asked[0]} for every output." if asked else "")
    return Question("Singling out", answer, proof, KNOWS_EVERYBODY)


def _linkability(found: Audit, numbers: Board) -> Question:
    answer = (
        f"whoever assigns each released row to the likeliest person is right for {_percent(numbers.linked)} of the "
        f"rows; with the public columns as they are for {_percent(numbers.linked_original)}, blindly for 1 in "
        f"{numbers.people:,}."
    )
    others = "Other releases of these rows are not looked at (--ledger)."
    if found.together is not None:
        draws, linked = found.together.draws, _percent(found.together.linked)
        answer += f" With the draws of the ledger, {draws}, side by side, row for row: {linked}."
        others = "All releases of these rows are in the ledger."
    return Question("Linkability", answer, _counted(numbers), f"{KNOWS_EVERYBODY} {others}")


def _inference(found: Audit, numbers: Board) -> Question:
    ceiling = f" of {told(found.leakage_ceiling)}" if found.leakage_ceiling else ""
    parts = [
        f"who knows nothing else learns {told(numbers.leakage)}{ceiling} about {' and '.join(found.private)}"
    ]
    others = knowing(found)
    if others:
        worst = others[0]
        parts.append(
            f"of those who know {how_many(others)} of the public columns, one who knows {worst.columns} "
            f"{told(worst.leakage)}"
        )
    parts.append(
        f"no released symbol makes a private value more than {numbers.lift:.2f} times as likely ({numbers.about}, by "
        f"{numbers.symbol})"
        if numbers.lift > 1.0 + 1e-6
        else "no released symbol changes the chance of any private value"
    )
    factor = math.exp(numbers.maximal_leakage)
    parts.append(f"no question about them becomes more than {factor:.2f} times as easy to guess")
    release = "no other release of these rows"
    if found.together is not None:
        parts.append(_all_draws(found.together))
        release = "all releases of the ledger, and no others"
    guarantees = [text for text in _guaranteed(found) if not text.startswith("k=")]
    held = f" The design guarantees {', '.join(guarantees)} for every output." if guarantees else ""
    target = "nothing or what is named here" if others else "nothing"
    assumes = (
        f"The attacker knows the frequencies of the table, of the target {target}, and has {release}. All this is "
        "about the people in the table; of people like them the audit speaks where it names its view."
    )
    classes = None if found.population is None else found.population.classes
    return Question("Inference", "; ".join(parts) + ".", _counted(numbers, classes) + held, assumes)


def _all_draws(found: Together) -> str:
    more = "" if found.entered else ", this one included"
    spent = ""
    if found.budget is not None:
        spent = f", {'within' if found.within else 'MORE THAN'} the budget of {told(found.budget)}"
    return (
        f"the draws of the ledger{more}, {found.draws}, tell {told(found.leakage)} of {told(found.ceiling)} "
        f"together{spent}"
    )


def _counted(numbers: Board, classes: int | None = None) -> str:
    if classes:
        return (
            "counted from the mechanism and the shares of the score classes, from which single rows differ."
        )
    drawn = " Released records are drawn anew from the symbols, and tell no more." if numbers.records else ""
    return f"counted from the mechanism and the table, exactly: no estimate.{drawn}"


def _guaranteed(found: Audit) -> list[str]:
    return [] if found.recount is None else list(found.recount.guaranteed)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"

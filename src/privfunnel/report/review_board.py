"""The three questions of a review board in a report: singling out, linkability, inference, in publishable numbers."""

from __future__ import annotations

import math

from privfunnel.audit import Audit, Board
from privfunnel.audit.review_board import KNOWS_EVERYBODY, board, knowing
from privfunnel.model.channels import joint
from privfunnel.release.mechanism import symbol_names
from privfunnel.report.described import Described
from privfunnel.report.parts import Section
from privfunnel.report.rounding import UNTOLD, ZERO, Rounding

#: Said of worst cases that a symbol of very few rows decides.
FEW = f"{UNTOLD}: a symbol or a value that very few rows have decides it; the steward's audit has it"

COUNTED = "Counted from the mechanism and the table, without estimates; rounded up here."
#: The same of private values that are taken from score classes.
BY_CLASSES = "Counted from the mechanism and the shares of the score classes; rounded up here."


def questions_section(release: Described, audit: Audit | None, say: Rounding) -> Section | None:
    """Return the answers, each with its proof and what it assumes; None where nobody knows how many people there are.

    Of a table with few rows, only what is said of averages.
    """
    numbers = _numbers(release, audit)
    if numbers is None:
        return None
    everybody = KNOWS_EVERYBODY.replace("sees one draw", "sees one draw of this release")
    rows = [
        ("Singling out: can a row be told to be one person's?", _singled_out(numbers, say), COUNTED, everybody),
        ("Linkability: can rows be matched with a list of names?", _linked(numbers, audit, say), COUNTED, everybody),
        ("Inference: what is learnt about private values?", _inferred(release, numbers, audit, say),
         (BY_CLASSES if release.classes else COUNTED) + _bound(release, say), _assumed(audit)),
    ]  # fmt: skip
    heads = ("question", "answer", "proof", "what it assumes")
    words = [
        "These are the three questions of the European data protection authorities (Article 29 working party, opinion "
        "05/2014)."
    ]
    return Section(title="Singling out, linkability, inference", words=words, tables=[("", heads, rows)])


def _numbers(release: Described, audit: Audit | None) -> Board | None:
    if audit is not None and audit.board is not None:
        return audit.board
    # Records are drawn from symbols: what points at people is counted for the symbols, which tell no less.
    labels = (symbol_names(release.p_sy.shape[1]), release.private.alphabet.labels)
    return board(joint(release.p_x, release.channel), release.p_sy, release.rows or 0.0, labels)


def _singled_out(numbers: Board, say: Rounding) -> str:
    if not say.detailed or say.rare(numbers.singled_out_share):
        return FEW
    most = say.percent(numbers.singled_out, "up")
    return f"At worst a released row is one certain person's with a probability of at most {most}."


def _linked(numbers: Board, audit: Audit | None, say: Rounding) -> str:
    right, original = say.percent(numbers.linked, "up"), say.percent(numbers.linked_original, "up")
    said = (
        f"Whoever takes the likeliest person for each released row is right for at most {right} of the rows; with the "
        f"public columns as they are, {original}."
    )
    if audit is not None and audit.together is not None:
        both = say.percent(audit.together.linked, "up")
        said += f" With all {audit.together.draws} draws of these rows side by side: {both}."
    return said


def _inferred(release: Described, numbers: Board, audit: Audit | None, say: Rounding) -> str:
    private = " and ".join(release.private.names)
    said = [
        f"On average {say.bits(release.leakage, 'up')} about {private} of the {say.bits(release.leakage_ceiling)} that "
        "the public columns tell."
        if release.leakage > ZERO
        else f"On average nothing about {private}."
    ]
    others = () if audit is None else knowing(audit)
    if others and say.detailed:
        worst = others[0]
        said.append(f"Who knows {worst.columns} of the target: {say.bits(worst.leakage, 'up')}.")
    if audit is not None and audit.together is not None:
        told = say.bits(audit.together.leakage, "up")
        said.append(f"All {audit.together.draws} draws of these rows together: {told}.")
    rare = release.private.labelled(~say.named(release.private.alphabet, release.p_sy.sum(axis=1)))
    if not say.detailed or say.rare(numbers.symbol_share) or numbers.about in rare:
        return " ".join([*said, f"The largest lift is {FEW}."])
    lift = say.of(numbers.symbol_share).factor(numbers.lift)
    easier = say.factor(math.exp(numbers.maximal_leakage))
    said.append(f"No symbol makes a private value more than {lift} times as likely{'.' if rare else ','}")
    if rare:
        return " ".join(said)
    said.append(f"and no question about them becomes more than {easier} times as easy to guess.")
    return " ".join(said)


def _bound(release: Described, say: Rounding) -> str:
    """Say what no release can undercut, where something is proved of that."""
    if release.lower_bound <= ZERO:
        return ""
    return f" No {release.rivals} leaks less than {say.bits(release.lower_bound, 'down')}: proved."


def _assumed(audit: Audit | None) -> str:
    knows = (
        "nothing of the target, or what is named here" if audit is not None and knowing(audit) else "nothing"
    )
    others = (
        "Other releases of these rows are not counted."
        if audit is None or audit.together is None
        else "All releases of these rows are in the ledger."
    )
    return f"The attacker knows the frequencies of the table and {knows}. {others} It is about the people in the table."

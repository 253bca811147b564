"""An audit as a section of a report."""

from __future__ import annotations

from privfunnel.audit import Audit, Interval
from privfunnel.report.parts import Section
from privfunnel.report.rounding import Rounding

SYMBOLS = 10  # the most telling ones are listed


def audit_section(audit: Audit) -> Section:
    """Return what an audit found, in numbers that may be published: whether the promise was kept, and two tables."""
    say = Rounding(float(audit.rows) if audit.rows else None)

    def percent(share: Interval | None) -> str:
        return "" if share is None else say.percent(share.value)

    attributes = [
        (
            each.name,
            say.bits(each.leakage.plug_in if audit.exact else each.leakage.corrected),
            percent(each.before),
            percent(each.after),
            percent(each.original),
            "" if each.attack is None else percent(each.attack.release),
            say.bits(each.maximal_leakage.value),
            say.factor(each.local_information_privacy.value),
        )
        for each in audit.attributes
    ]
    # A symbol or a private value that few people have would speak of them.
    frequent = [s for s in audit.symbols if not say.rare(s.share)]
    symbols = [
        (s.label, say.percent(s.share), say.bits(s.information.value), f"× {say.factor(s.lift)}")
        for s in frequent[:SYMBOLS]
    ]
    knowing = [
        (each.columns, say.bits(each.leakage), say.bits(each.ceiling)) for each in audit.informed[:SYMBOLS]
    ]
    heads = ("private", "#leakage", "#guess before", "#after", "#from original", "#trained attacker",
             "#maximal leakage", "#ε, nats")  # fmt: skip
    return Section(
        title="Audit",
        words=[*_verdicts(audit, say), *audit.limits],
        tables=[
            ("Each private column, and all of them together.", heads, attributes),
            (
                "The released symbols that tell most.",
                ("symbol", "#released", "#tells", "#largest lift"),
                symbols,
            ),
            *(
                [
                    (
                        "Attackers who know public columns of their target already: what the release adds for them.",
                        ("knows", "#learns", "#of"),
                        knowing,
                    )
                ]
                if knowing
                else []
            ),
        ],
    )


def _verdicts(audit: Audit, say: Rounding) -> list[str]:
    """Return what was checked and how it came out, without the exact numbers."""
    words = [f"The audit rests on {say.count(audit.rows)} rows."] if audit.rows else []
    if audit.recount is not None:
        told = "the table it was designed on" if audit.recount.same_table else "another table"
        kept = "holds" if audit.recount.holds else "DOES NOT HOLD"
        words.append(f"Counted again on {told}, the promise {kept}.")
    if audit.draws is not None:
        agree = "agree" if audit.draws.agrees else "DO NOT AGREE"
        words.append(f"The released rows {agree} with fresh draws of the mechanism for the same rows.")
    if audit.further is not None:
        names = ", ".join(each.name for each in audit.further.columns)
        more = "TELL MORE THAN" if audit.further.leaks else "show nothing beyond"
        words.append(
            f"Columns that no promise covers stand beside the release, {names}: they {more} the release."
        )
    if audit.holdout is not None:
        words.append(
            f"On rows that the mechanism was not designed on, the promise is {audit.holdout.verdict}."
        )
    if audit.population is not None:
        most = say.bits(audit.population.leakage.high, "up")
        sure = f"{100 * audit.population.confidence:g} % confidence"
        words.append(f"In the population behind these rows the release leaks {most} at most, with {sure}.")
    return words

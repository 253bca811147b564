"""An audit as a section of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from privfunnel.audit import Audit, Interval, Persons, Population
from privfunnel.audit.population import provable_attackers
from privfunnel.data.population.views import NOTHING_CLAIMED, View, view_of
from privfunnel.release.publication import Policy
from privfunnel.report.parts import Section
from privfunnel.report.rounding import UNTOLD, ZERO, Rounding

#: A table of a section: its title, its heads and its rows.
TitledRows = tuple[str, tuple[str, ...], Sequence[tuple[str, ...]]]

SYMBOLS = 10  # the most telling ones are listed

#: Whom a report speaks of where nothing else was looked at.
AS_A_REGISTER = (
    "The table is taken as the population (a register): nothing is claimed about people who are not in it."
)
#: The same where its rows are few.
AS_A_SAMPLE = (
    "The rows are few for so many combinations, and are taken as a sample: what is said here is about these rows. For "
    f"people like them the same releases leak more. {NOTHING_CLAIMED}."
)


#: The same where designs were made again on parts of the rows.
AS_A_SAMPLE_SEEN = (
    "The table is taken as a sample from a population: what is said here is about its rows, and beside it stands what "
    "is estimated for people like them."
)


def taken_as(
    shape: tuple[int, int],
    rows: float | None,
    leakage_ceiling: float,
    view: View | None = None,
    *,
    seen: bool = False,
) -> str:
    """Return what a table is taken as where no audit says more.

    Args:
        shape: K and M.
        rows: Rows, None where their number is not known.
        leakage_ceiling: I(S;X) in nats.
        view: What the table was said to be.
        seen: Whether the report tells something about people like those of the table.
    """
    if view_of(view, shape, rows, leakage_ceiling) == "register":
        return AS_A_REGISTER
    return AS_A_SAMPLE_SEEN if seen else AS_A_SAMPLE


def audit_section(audit: Audit, policy: Policy | None = None, rare: Sequence[str] = ()) -> Section:
    """Return what an audit found, in numbers that may be published: whether the promise was kept, and two tables.

    Args:
        audit: The audit.
        policy: What may be published.
        rare: Labels of private symbols that few people have: worst cases that they decide are not told.
    """
    rows = float(audit.rows if audit.persons is None else audit.persons.persons)
    say = Rounding(rows or None, policy or Policy())
    if not say.detailed:
        return Section(title="Audit", words=[*_checks(audit), *audit.limits])

    def percent(share: Interval | None) -> str:
        return "" if share is None else say.percent(share.value)

    rarest = min((s.share for s in audit.symbols), default=1.0)
    attributes = [
        (
            each.name,
            say.bits(each.leakage.plug_in if audit.exact else each.leakage.corrected),
            percent(each.before),
            percent(each.after),
            percent(each.original),
            "" if each.attack is None else percent(each.attack.release),
            UNTOLD if rare else say.bits(each.maximal_leakage.value),
            UNTOLD if rare else say.of(rarest).log_factor(each.local_information_privacy.value),
        )
        for each in audit.attributes
    ]
    # A symbol or a private value that few people have would speak of them, and so would decoys: they name combinations
    # of values that few people have.
    named = () if audit.form == "decoys" else audit.symbols
    frequent = [s for s in named if not say.rare(s.share) and s.lift > 1.0 + ZERO]
    # In the order of what is told, for an order by exact numbers tells more.
    frequent.sort(key=lambda s: (-say.of(s.share).bits_told(s.information.value), s.label))
    symbols = [
        (
            s.label,
            say.percent(s.share),
            own.bits(s.information.value),
            UNTOLD if s.about in rare else f"× {own.factor(s.lift)}",
        )
        for s, own in ((s, say.of(s.share)) for s in frequent[:SYMBOLS])
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
            *_filled(
                "Released symbols that enough rows get, and what each tells; more telling ones first as far as told.",
                ("symbol", "#released", "#tells", "#largest lift"),
                symbols,
            ),
            *_filled(
                "Attackers who know public columns of their target already: what the release adds for them.",
                ("knows", "#learns", "#of"),
                knowing,
            ),
            *_releases(audit, say),
        ],
    )


def _filled(title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[TitledRows]:
    """Return a table, or nothing where it would be empty."""
    return [(title, heads, rows)] if rows else []


def _releases(audit: Audit, say: Rounding) -> list[TitledRows]:
    """Return the releases of the ledger as a table, with what all of them tell together and may tell."""
    found = audit.together
    if found is None:
        return []
    rows: list[tuple[str, ...]] = [
        (
            each.date,
            each.series or "",
            "with the one it follows" if each.follows else "alone",
            say.bits(each.leakage),
        )
        for each in found.listed
    ]
    if not found.entered:
        rows.append(("this one", "", "", ""))
    rows.append(("all", "", "together", say.bits(found.leakage, "up")))
    if found.budget is not None:
        rows.append(("budget", "", "kept" if found.within else "EXCEEDED", say.bits(found.budget)))
    return [
        ("The releases of these rows, as the ledger has them.", ("date", "series", "counted", "#tells"), rows)
    ]


def _persons(found: Persons, say: Rounding) -> list[str]:
    """Return how persons with several rows were drawn, and what adding their rows up brings."""
    if found.drawn_once is None:
        return []
    some = "some of them have" if found.varying else "none of them has"
    drawn = (
        f"Each person was drawn once for each combination of public values; {some} several."
        if found.drawn_once
        else "Rows of one person with the same public values were drawn one by one."
    )
    return [
        drawn,
        *(
            f"Whoever knows which rows are one person's guesses {each.attribute} right "
            f"{say.percent(each.together.value)} of the time by adding them up, {say.percent(each.alone.value)} from "
            "one row."
            for each in found.votes
        ),
    ]


def _verdicts(audit: Audit, say: Rounding) -> list[str]:
    """Return what the audit rests on, what was checked and how it came out, without the exact numbers."""
    people = "" if audit.persons is None else f" of {say.count(audit.persons.persons)} persons"
    people += "" if audit.clusters is None else f" in {say.count(audit.clusters.clusters)} clusters"
    words = [f"The audit rests on {say.count(audit.rows)} rows{people}."] if audit.rows else []
    if audit.persons is not None:
        words += _persons(audit.persons, say)
    return [*words, *noise_words(audit, say), *_checks(audit), *population_words(audit, say)]


def noise_words(audit: Audit, say: Rounding) -> list[str]:
    """Return that a mechanism was designed on counts with noise, and what the noise cost."""
    found = audit.recount
    if found is None or found.epsilon is None:
        return []
    words = [
        f"The mechanism was designed on counts with noise (ε = {found.epsilon:g}): it and its codebook are "
        "differentially private."
    ]
    if say.detailed:
        words.append(
            f"What the noise cost: on the rows themselves the release leaks {say.bits(found.leakage)} and keeps "
            f"{say.bits(found.disclosure)}, where the counts with noise promised {say.bits(found.claimed_leakage)} and "
            f"{say.bits(found.claimed_disclosure)}."
        )
    return words


def _checks(audit: Audit) -> list[str]:
    """Return what was checked and how it came out, without any number."""
    words = []
    if audit.recount is not None:
        other = "another table" if audit.recount.epsilon is None else "the rows without noise"
        told = "the table it was designed on" if audit.recount.same_table else other
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
    return words


def population_words(audit: Audit, say: Rounding) -> list[str]:
    """Return what the table is taken as, and what is promised beyond its rows, without the exact numbers."""
    found = audit.population
    if audit.on_design and audit.recount is not None and audit.view == "register":
        return [AS_A_REGISTER]
    if found is None:
        return (
            [f"The table is taken as a sample, and what is said of it is about its rows. {NOTHING_CLAIMED}."]
            if audit.view == "sample"
            else []
        )
    sure = f"{100 * found.confidence:g} % confidence"
    most = say.bits(found.leakage.high, "up")
    if found.designs == 1:
        start = f"In the population behind these rows the release leaks {most} at most, with {sure}."
        return [start, *_informed(found, say)]
    taken = "The table is taken as a sample from a population, and what is said of it is about its rows."
    proved = found.worst_case is not None and found.worst_case < (audit.leakage_ceiling or 0.0)
    itself = (
        [
            f"This very release leaks {say.bits(found.worst_case, 'up')} at most about people like them, with {sure}."
        ]
        if found.worst_case is not None and proved
        else []
    )
    if found.worst_lift is not None and found.worst_lift < found.largest_lift:
        times = math.ceil(10.0 * math.exp(found.worst_lift)) / 10.0
        itself.append(
            f"This very release makes no private value of such people more than {times:g} times as likely, with {sure}."
        )
    if found.proves_little:
        few = "" if itself else " They are too few to prove anything about people like them."
        estimated = (
            f"About people like them an estimated {say.bits(found.leakage.value)} leaks, by designs on one part of the "
            "rows, judged by the others."
        )
        return [f"{taken}{few}", estimated, *itself]
    return [
        f"{taken} For people like them: designed in the same way on one part of the rows and released for the others, "
        f"in turn, it leaks {most} at most on average, with {sure}.",
        *_informed(found, say),
        *itself,
    ]


def _informed(found: Population, say: Rounding) -> list[str]:
    """Return what is proved of attackers who know public columns, where it is proved of all with so many."""
    proved, how_many = provable_attackers(found)
    if not how_many:
        return []
    what = "column" if how_many == "one" else "columns"
    return [
        f"Who knows {how_many} public {what} of such people already learns {say.bits(proved[0].upper, 'up')} at most, "
        f"with {100 * found.confidence:g} % confidence."
    ]

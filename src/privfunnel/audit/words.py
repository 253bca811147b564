"""An audit in sentences: the verdict first, then people, then averages, worst cases and checks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from privfunnel.audit import informed, voting
from privfunnel.audit import population as beyond
from privfunnel.audit.guards import measured_words
from privfunnel.audit.ranking import auc_words, below_chance
from privfunnel.data.population.views import NOTHING_CLAIMED
from privfunnel.model.amounts import amount, told

if TYPE_CHECKING:
    from privfunnel.audit.estimates import Information, Interval
    from privfunnel.audit.extra_columns import Further
    from privfunnel.audit.promise import Draws, Recount
    from privfunnel.audit.result import Attribute, Audit, Holdout

#: Private values about which a sentence is said; the others are in the table.
SAID = 6

#: What the two views of a table mean for what is said of it.
REGISTER = (
    "The table is taken as the population, a register: what is said above is exact for its rows, and nothing is "
    "claimed about other people (--view sample says what can be)."
)
SAMPLE = (
    "The table is taken as a sample from a population: what is said above is about its rows, which the mechanism was "
    "designed on."
)

#: The same of a design with score classes.
SAMPLE_OF_CLASSES = (
    "The table is taken as a sample from a population: what is said above, trained attackers aside, takes each row to "
    "have the shares of its score class. The rows' own values differ from these, by chance at least."
)


def of_audit(found: Audit) -> list[str]:
    """All findings, most important first."""
    guessed = found.attributes[:-1] or found.attributes
    attacks = (attribute.attack for attribute in guessed)
    lines = [_guess(attribute) for attribute in guessed]
    lines += below_chance(attack.auc for attack in attacks if attack is not None)
    verdict = [_file_verdict(found.further)] if found.further is not None and found.further.leaks else []
    instead = [each.words for each in found.instead]
    whose = (
        []
        if found.persons is None
        else voting.words(found.persons, found.rows, _leaked(found), clustered=found.clusters is not None)
    )
    whose += [] if found.clusters is None else [found.clusters.words(found.rows)]
    return [
        *verdict, *lines, *people(found), *whose, *_average(found), *instead, *_worst(found), *_informed(found),
        *_checks(found),
    ]  # fmt: skip


def _leaked(found: Audit) -> float:
    """I(S;Y) as the sentences tell it, in nats."""
    return _best(found.leakage, found.exact)


def people(found: Audit) -> list[str]:
    """Who is exposed most, a sentence each private value; the honest summary where nobody is."""
    notable = [each for each in found.exposures if each.notable]
    if not notable:
        largest = max((each.lift for each in found.exposures), default=1.0)
        if largest < 1.0 + 1e-6:
            return ["No released symbol changes the chance of any private value."]
        return [
            f"Nobody's released symbol makes a private value more than {largest:.3f} times as likely as before."
        ]
    lines = [each.words if found.persons is None else each.row_words for each in notable[:SAID]]
    if len(notable) > SAID:
        lines.append(f"{len(notable) - SAID} further private values rise less than these.")
    return lines


def _guess(attribute: Attribute) -> str:
    source = "" if attribute.original is None else f"; {_percent(attribute.original)} from the original data"
    best = (
        f"An attacker who guesses {attribute.name} from the release is right {_percent(attribute.after)} of the time "
        f"({_percent(attribute.before)} without it{source})"
    )
    attack = attribute.attack
    if attack is None:
        return f"{best}."
    learnt = (
        ""
        if attack.original is None or attack.auc_original is None
        else f", one trained on the original data {_percent(attack.original)} (AUC "
        f"{auc_words(attack.auc_original, attack.auc_original_interval)})"
    )
    ends = f"95 % interval {100 * attack.release.low:.1f} to {100 * attack.release.high:.1f}; AUC "
    ends += auc_words(attack.auc, attack.auc_interval)
    trained = (
        f"on rows it has not seen, one trained on the release is right {_percent(attack.release)} ({ends})"
    )
    return f"{best}; {trained}{learnt}."


def _average(found: Audit) -> list[str]:
    leakage, disclosure = found.leakage, found.disclosure
    ceiling = (
        f" of the {told(found.leakage_ceiling)} that the public columns hold" if found.leakage_ceiling else ""
    )
    keeps = (
        f"{100 * _best(disclosure, found.exact) / found.disclosure_ceiling:.1f} %"
        if found.disclosure_ceiling
        else "all"
    )
    lines = [
        f"The release says {_span(leakage, found)} about {' and '.join(found.private)}{ceiling}, and keeps "
        f"{_span(disclosure, found)} of the public columns ({keeps} of H(X)).",
        *_single_columns(found),
        *([] if found.fidelity is None else found.fidelity.words),
        *(model.words for model in found.models),
    ]
    if leakage.p_value is None or leakage.null_high is None:
        return lines
    verdict = "more than" if leakage.plug_in > leakage.null_high else "no more than"
    chance = f"The rows show {verdict} chance would: permuted pairings give up to {told(leakage.null_high)}, "
    return [
        *lines,
        chance + f"these rows {told(leakage.plug_in)} before correction (p = {leakage.p_value:.3f}).",
    ]


def _single_columns(found: Audit) -> list[str]:
    """Why the shares of single columns are not that of all together."""
    known = [each for each in found.columns if each.entropy > 0.0]
    if len(known) < 2:
        return []
    least, most = min(known, key=lambda each: each.share), max(known, key=lambda each: each.share)
    return [
        f"Of single public columns it keeps between {100 * least.share:.1f} % ({least.name}) and "
        f"{100 * most.share:.1f} % ({most.name}). These differ from the share of all together, which also counts what "
        "the release says about combinations of columns: it can leave few combinations possible and yet settle no "
        "single column."
    ]


def _worst(found: Audit) -> list[str]:
    whole = found.attributes[-1]
    lip = whole.local_information_privacy.value
    ends = (
        "some symbol rules a private value out"
        if math.isinf(lip)
        else f"local information privacy ε = {lip:.3f} nats"
    )
    times = f"{math.exp(whole.max_log_lift.value):.2f} times"
    among = "" if found.mechanism_known else " (among these rows; a symbol released once counts fully)"
    return [
        f"At worst: no released symbol makes a private value more than {times} as likely as before{among}; {ends}; "
        f"maximal leakage {told(whole.maximal_leakage.value)}."
    ]


def _informed(found: Audit) -> list[str]:
    alone = _best(found.leakage, found.exact)
    if (
        found.mechanism_known and math.fsum(each.share for each in found.symbols) > 1.0 - 1e-9
    ):  # all are listed
        # As the others' are: what the mechanism tells, not what these draws of it seem to.
        alone = math.fsum(each.share * each.information.value for each in found.symbols)
    return informed.words(found.informed, alone)


def _checks(found: Audit) -> list[str]:
    lines = []
    if found.recount is not None:
        lines.append(_recount(found.recount, found.further))
    if found.draws is not None:
        lines.append(_draws(found.draws))
    if found.further is not None:
        lines += _further(found.further)
    if found.holdout is not None:
        lines += holdout(found.holdout)
    lines += _population(found)
    if found.unmatched:
        lines.append(f"{found.unmatched} rows have no partner in the other table and were left out.")
    return lines


def _population(found: Audit) -> list[str]:
    """What the table is taken as, and what that allows to say about others than its rows."""
    if found.holdout is not None or found.recount is None:
        return []
    if found.recount.overlaps and not found.recount.same_table:
        return [
            "Rows of this table were used in the design, so they prove nothing about the population; what rows held "
            "out from it prove, if any were, was told with the design (population.json)."
        ]
    if not found.recount.same_table:
        proved = [] if found.population is None else beyond.words(found.population)
        return [*proved, "This holds if none of these rows was used in the design."]
    if found.view == "register":
        return [REGISTER]
    if found.population is not None:
        return [
            SAMPLE if not found.population.classes else SAMPLE_OF_CLASSES,
            *beyond.words(found.population),
        ]
    return [
        f"{SAMPLE} {NOTHING_CLAIMED}: that takes another table or, for a plain release, "
        "designing again on parts of the rows (--view sample) or rows held out from the design (--holdout 0.3)."
    ]


def _file_verdict(found: Further) -> str:
    names = ", ".join(each.name for each in found.columns)
    best = max(found.attacks, key=lambda each: each.file - each.release, default=None)
    learnt = (
        ""
        if best is None
        else f" An attacker trained on all columns guesses {best.attribute} right {100 * best.file:.1f} % of the time "
        f"({100 * best.release:.1f} % from the release alone, {100 * best.prior:.1f} % without it; AUC "
        f"{best.auc_file:.3f} instead of {best.auc_release:.3f})."
    )
    return (
        f"THE FILE TELLS MORE THAN ITS RELEASE: beside it stand {names}, outside the promise. The released symbol says "
        f"{told(found.released)} about the private columns, everything in the file about {told(found.file)}.{learnt}"
    )


def _further(found: Further) -> list[str]:
    names = ", ".join(f"{each.name} ({told(each.added)} more)" for each in found.columns)
    verdict = "add to" if found.leaks else "add nothing that these rows show to"
    lines = [
        f"The file has columns besides the release, which no promise covers: {names}. They {verdict} what it says "
        f"about the private columns: {told(found.released)} by the release, {told(found.file)} by the whole file "
        f"(p = {found.p_value:.3f})."
    ]
    naming = [each.name for each in found.columns if each.names_rows]
    if naming:
        lines.append(
            f"{', '.join(naming)} tells rows apart: whoever has another table with it knows whose row is whose."
        )
    for each in found.attacks:
        lines.append(
            f"Trained on all columns of the file, an attacker guesses {each.attribute} right {100 * each.file:.1f} % "
            f"of the time, on the release alone {100 * each.release:.1f} % (AUC {each.auc_file:.3f} and "
            f"{each.auc_release:.3f})."
        )
    return lines


def _recount(found: Recount, further: Further | None) -> str:
    if found.same_table:
        verdict = "holds" if found.holds else "DOES NOT HOLD"
        what = (
            "The designed promise"
            if further is None
            else "For the released symbol alone the designed promise"
        )
        return (
            f"{what} {verdict}: leakage {told(found.claimed_leakage)} claimed, {told(found.leakage)} "
            f"counted again on the table it was designed on{_guards(found)}."
        )
    new = f"; {found.new_rows} rows hold values not seen at design time" if found.new_rows else ""
    verdict = "compatible with" if found.holds else "ABOVE"
    where = (
        "another table"
        if found.epsilon is None
        else f"counts with noise (ε = {found.epsilon:g}), for which it is differentially private"
    )
    return (
        f"The mechanism was designed on {where}; on this one its channel leaks {told(found.leakage)} (at least "
        f"{told(found.least_leakage)}, allowing for chance in the rows of both), {verdict} the "
        f"{told(found.claimed_leakage)} it promised there{new}."
    )


def _guards(found: Recount) -> str:
    """What a guarded mechanism was designed for, counted again."""
    parts = [
        f"{text} for every output: {value:.3f} counted again" for text, value in found.guaranteed.items()
    ]
    if len(found.guarded_leakages) > 1:
        parts += [f"{told(value)} to who knows {known}" for known, value in found.guarded_leakages.items()]
    parts += measured_words(found.measured, found.measure, found.guarded_leakages)
    return "".join(f"; {each}" for each in parts)


def _draws(found: Draws) -> str:
    span = f"{amount(found.leakage.low)} to {told(found.leakage.high)}"
    if found.impossible:
        return f"THE RELEASE IS NOT THIS MECHANISM'S: {found.impossible} rows hold symbols that it never gives them."
    verdict = "agree" if found.agrees else "DO NOT AGREE"
    return (
        f"The released rows {verdict} with the mechanism: they measure {told(found.leakage.value)} uncorrected, fresh "
        f"draws for the same rows {span} (p = {found.p_value:.3f}; the alarm, at "
        "0.005, is false for one honest release in 200)."
    )


def holdout(found: Holdout) -> list[str]:
    """How the promise fared on held-out rows: refuted, proved, or neither."""
    leakage = found.population.leakage
    verdicts = {
        "refuted": "the promise is refuted for the population",
        "proved": "the promise is proved for the population",
        "not refuted": "the promise is not refuted, and not proved either",
    }
    whose = "" if found.design_persons is None else f" of {found.design_persons} persons"
    whose += "" if found.design_clusters is None else f" in {found.design_clusters} clusters"
    each = "" if found.design_persons is None else "person"
    each = each if found.design_clusters is None else "cluster"
    held_out = (
        f"{found.held_out_rows} rows, one of each other {each},"
        if each
        else f"the other {found.held_out_rows} rows"
    )
    if found.population.weighted:
        some = f"the rows, one each of the other {each}s" if each else "the other rows"
        held_out = f"{found.held_out_rows} of {some}, kept in proportion to their weights,"
    first = (
        f"Designed on {found.design_rows} rows{whose} with {told(found.promised_leakage)} of leakage promised for "
        f"them, the release of {held_out} measures {told(leakage.value)} uncorrected; in the "
        f"population, with {100 * found.population.confidence:g} % confidence, {amount(leakage.low)} to "
        f"{told(leakage.high)}: {verdicts[found.verdict]}; {found.new_rows} of the held-out rows "
        "hold values the design rows do not have."
    )
    return [first, *beyond.words(found.population)]


def _percent(share: Interval) -> str:
    return f"{100 * share.value:.1f} %"


def _best(information: Information, exact: bool) -> float:
    return information.plug_in if exact else information.corrected


def _span(information: Information, found: Audit) -> str:
    if found.exact:
        which = "table it was designed on" if found.on_design else "counted table"
        return f"{told(information.plug_in)} in the {which}"
    ends = f"95 % interval {amount(information.low)} to {amount(information.high)}"
    scope = (
        " for these rows"
        if found.on_design
        else ""
        if found.recount is not None
        else ", unless it was designed on these very rows"
    )
    return f"{told(information.corrected)} ({ends}{scope})"

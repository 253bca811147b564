"""What an audit found: numbers with intervals, and the words that a review board reads first."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from privfunnel.audit.attacker import Attack
from privfunnel.audit.estimates import Information, Interval
from privfunnel.audit.promise import Draws, Recount
from privfunnel.measures import to_bits

SCHEMA = "privfunnel/audit"
SCHEMA_VERSION = 1

LIMITS = (
    "Leakage is mutual information, an average over rows: single rows can lose more; see the worst-case measures.",
    "This is not differential privacy: it protects the named private columns under the counted distribution, not the "
    "presence of a row.",
    "Side information that an attacker holds besides the release is outside the guarantee, and so are kept columns.",
    "Two draws for the same rows tell more than one, even where one tells nothing; draw once.",
)


@dataclass(frozen=True)
class Attribute:
    """What the release says about one private attribute, or about all of them together.

    Attributes:
        name: The column, or all names joined by "and".
        leakage: I(attribute; Y) in nats.
        before: How often the best guess is right without the release; ``after`` with it, knowing all frequencies;
            ``original`` from the original public columns.
        maximal_leakage: log Σ_y max p(y|s), nats.
        max_log_lift: max log p(s|y)/p(s), nats; ``local_information_privacy`` the largest absolute value.
        attack: The trained attacker, where one was trained.
    """

    name: str
    leakage: Information
    before: Interval
    after: Interval
    original: Interval | None
    maximal_leakage: Interval
    max_log_lift: Interval
    local_information_privacy: Interval
    attack: Attack | None = None


@dataclass(frozen=True)
class Symbol:
    """What one released symbol says about the private attributes together.

    Attributes:
        label: Its name.
        share: How often it is released.
        information: D(p(s|y) ‖ p(s)) in nats.
        lift: The largest p(s|y)/p(s), ``about`` the private symbol it belongs to.
    """

    label: str
    share: float
    information: Interval
    lift: float
    about: str


@dataclass(frozen=True)
class Holdout:
    """How a promise made on one part of the rows held on the others; nats.

    Attributes:
        design_rows: Rows the mechanism was designed on; ``held_out_rows`` the others.
        promised_disclosure: On the design rows; ``promised_leakage`` likewise.
        disclosure: On the held-out rows; ``leakage`` likewise, both corrected for the bias of few rows.
        new_rows: Held-out rows whose public values the design rows do not have; they are drawn from p(y).
    """

    design_rows: int
    held_out_rows: int
    promised_disclosure: float
    promised_leakage: float
    disclosure: Interval
    leakage: Interval
    new_rows: int

    @property
    def held(self) -> bool:
        """False where even the lower end of the held-out leakage is above the promise."""
        return self.promised_leakage >= self.leakage.low


@dataclass(frozen=True)
class Audit:
    """An audit; amounts of information in nats.

    Attributes:
        rows: Rows it rests on.
        n_y: Number of released symbols.
        private: Names of the private columns; ``public`` of the public ones.
        disclosure: I(X;Y), ``disclosure_ceiling`` H(X), ``leakage_ceiling`` I(S;X) where the original is at hand.
        attributes: One entry a private column and, if there are several, one for all together, last.
        symbols: Released symbols, the most informative first.
        recount: The designed promise, checked; ``draws`` the released rows against fresh draws; ``holdout`` if asked.
        exact: The numbers are the mechanism's own, not estimated from released rows.
        mechanism_known: Worst-case measures and symbols are the mechanism's own, not those of the released rows.
        unmatched: Rows without a partner, where they were matched by key.
        limits: What this is not.
    """

    rows: int
    n_y: int
    private: tuple[str, ...]
    public: tuple[str, ...]
    disclosure: Information
    disclosure_ceiling: float
    leakage_ceiling: float | None
    attributes: tuple[Attribute, ...]
    symbols: tuple[Symbol, ...]
    recount: Recount | None = None
    draws: Draws | None = None
    holdout: Holdout | None = None
    exact: bool = False
    mechanism_known: bool = False
    unmatched: int = 0
    limits: tuple[str, ...] = field(default=LIMITS)

    @property
    def leakage(self) -> Information:
        """I(S;Y) of all private attributes together, in nats."""
        return self.attributes[-1].leakage

    @property
    def passed(self) -> bool:
        """False where a check of the promise failed."""
        return (
            (self.recount is None or self.recount.holds)
            and (self.draws is None or self.draws.agrees)
            and (self.holdout is None or self.holdout.held)
        )

    def words(self) -> list[str]:
        """The findings as sentences, most important first."""
        lines = [_guess(attribute) for attribute in self.attributes[:-1] or self.attributes]
        return [*lines, *self._average(), *self._worst(), *self._checks()]

    def _average(self) -> list[str]:
        leakage, disclosure = self.leakage, self.disclosure
        ceiling = (
            f" of the {_bits(self.leakage_ceiling)} that the public columns hold"
            if self.leakage_ceiling
            else ""
        )
        keeps = (
            f"{100 * _best(disclosure, self.exact) / self.disclosure_ceiling:.1f} %"
            if self.disclosure_ceiling
            else "all"
        )
        said = (f"The release says {_span(leakage, self.exact)} about {' and '.join(self.private)}{ceiling}, and keeps "
                f"{_span(disclosure, self.exact)} of the public columns ({keeps} of H(X)).")  # fmt: skip
        if leakage.p_value is None or leakage.null_high is None:
            return [said]
        verdict = "more than" if leakage.plug_in > leakage.null_high else "no more than"
        chance = (
            f"The rows show {verdict} chance would: permuted pairings give up to {_bits(leakage.null_high)}, "
        )
        return [
            said,
            chance + f"these rows {_bits(leakage.plug_in)} before correction (p = {leakage.p_value:.3f}).",
        ]

    def _worst(self) -> list[str]:
        whole = self.attributes[-1]
        lip = whole.local_information_privacy.value
        ends = (
            "some symbol rules a private value out"
            if math.isinf(lip)
            else f"local information privacy ε = {lip:.3f} nats"
        )
        times = f"{math.exp(whole.max_log_lift.value):.2f} times"
        among = "" if self.mechanism_known else " (among these rows; a symbol released once counts fully)"
        return [
            f"At worst: no released symbol makes a private value more than {times} as likely as before{among}; {ends}; "
            f"maximal leakage {_bits(whole.maximal_leakage.value)}."
        ]

    def _checks(self) -> list[str]:
        lines = []
        if self.recount is not None:
            lines.append(_recount_words(self.recount))
        if self.draws is not None:
            lines.append(_draws_words(self.draws))
        if self.holdout is not None:
            lines.append(holdout_words(self.holdout))
        if self.unmatched:
            lines.append(f"{self.unmatched} rows have no partner in the other table and were left out.")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; infinite numbers as the text ``"inf"``."""
        return {
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "units": "nats",
            "passed": self.passed,
            "words": self.words(),
            **_plain(dataclasses.asdict(self)),
        }


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
        "" if attack.original is None else f", one trained on the original data {_percent(attack.original)}"
    )
    ends = f"95 % interval {100 * attack.release.low:.1f} to {100 * attack.release.high:.1f}"
    trained = (
        f"on rows it has not seen, one trained on the release is right {_percent(attack.release)} ({ends})"
    )
    return f"{best}; {trained}{learnt}."


def _percent(share: Interval) -> str:
    return f"{100 * share.value:.1f} %"


def _bits(nats: float) -> str:
    return f"{to_bits(nats):.4f} bits"


def _best(information: Information, exact: bool) -> float:
    return information.plug_in if exact else information.corrected


def _span(information: Information, exact: bool) -> str:
    ends = f"95 % interval {to_bits(information.low):.4f} to {to_bits(information.high):.4f}"
    if not exact:
        return f"{_bits(information.corrected)} ({ends})"
    if information.low == information.high:
        return f"{_bits(information.plug_in)} in the table it was designed on"
    return f"{_bits(information.plug_in)} in the counted table ({ends} in the population behind it)"


def _recount_words(found: Recount) -> str:
    if found.same_table:
        verdict = "holds" if found.holds else "DOES NOT HOLD"
        return (
            f"The designed promise {verdict}: leakage {_bits(found.claimed_leakage)} claimed, {_bits(found.leakage)} "
            f"counted again on the table it was designed on."
        )
    new = f"; {found.new_rows} rows hold values not seen at design time" if found.new_rows else ""
    verdict = "compatible with" if found.holds else "ABOVE"
    return (
        f"The mechanism was designed on another table; on this one its channel leaks {_bits(found.leakage)} (at least "
        f"{_bits(found.least_leakage)}, allowing for chance in the rows of both), {verdict} the "
        f"{_bits(found.claimed_leakage)} it promised there{new}."
    )


def _draws_words(found: Draws) -> str:
    span = f"{to_bits(found.leakage.low):.4f} to {to_bits(found.leakage.high):.4f} bits"
    if found.impossible:
        return f"THE RELEASE IS NOT THIS MECHANISM'S: {found.impossible} rows hold symbols that it never gives them."
    verdict = "agree" if found.agrees else "DO NOT AGREE"
    return (
        f"The released rows {verdict} with the mechanism: they measure {_bits(found.leakage.value)} uncorrected, fresh "
        f"draws for the same rows {span} (p = {found.p_value:.3f}; the alarm, at "
        "0.005, is false for one honest release in 200)."
    )


def holdout_words(found: Holdout) -> str:
    """How the promise held, in a sentence."""
    span = f"{to_bits(found.leakage.low):.4f} to {to_bits(found.leakage.high):.4f}"
    verdict = "held" if found.held else "did not hold"
    return (
        f"Designed on {found.design_rows} rows with {_bits(found.promised_leakage)} of leakage promised, the other "
        f"{found.held_out_rows} rows leak {_bits(found.leakage.value)} (95 % interval {span}): the promise {verdict}; "
        f"{found.new_rows} of them hold values the design rows do not have."
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value

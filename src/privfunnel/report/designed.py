"""What a guarded release was designed for: attackers who know something, guarantees, another measure of leakage.

The promise of a report is about a reader who knows nothing, and of mutual information. What else a release was designed
for, and what is proved of that, stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from privfunnel.infra.checks import is_number
from privfunnel.measures import INFORMATION, MEASURES
from privfunnel.model.threat import spending_words
from privfunnel.release.mechanism import Mechanism
from privfunnel.report.rounding import ZERO, Rounding
from privfunnel.report.scale import Scale
from privfunnel.solving.curve import worst_attacker
from privfunnel.solving.solution import Solution


@dataclass(frozen=True)
class Designed:
    """The question that a guarded release answers.

    Attributes:
        conditions: Whom it is guarded against and what holds, to follow "it was designed".
        scale: What its leakage is measured by.
        leakage: The largest leakage of the attackers, in nats or the measure's own numbers; None where private columns
            have budgets of their own.
        lower_bound: What is proved of the largest leakage of every release that keeps as much.
        who: What the attacker knows who learns most; empty where there is only one.
        budgets: What may leak about single private columns, in the numbers of ``leakage``: a share of what X tells
            about a column, so that it is rounded like all that a report tells.
    """

    conditions: str
    scale: Scale
    leakage: float | None = None
    lower_bound: float = 0.0
    who: str = ""
    budgets: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_solution(cls, solution: Solution) -> Designed | None:
        """The question of a solution; None for the plain funnel."""
        guards = solution.guards
        if guards.plain:
            return None
        scale = Scale.of(solution.problem, guards)
        if guards.attributes:
            budgets = {one.name: one.budget for one in guards.attributes}
            return cls(replace(guards, attributes=()).conditions, scale, budgets=budgets)
        who = worst_attacker(solution) if len(solution.leakages) > 1 else ""
        return cls(guards.conditions, scale, solution.leakage, solution.lower_bound, who)

    @classmethod
    def of_mechanism(cls, mechanism: Mechanism) -> Designed | None:
        """The question of a mechanism, as its file tells it; None for the plain funnel."""
        told = mechanism.provenance
        if not told.get("conditions"):
            return None
        conditions = str(told["conditions"])
        measure = told.get("measure")
        usual = Scale(INFORMATION, float(mechanism.promise["leakage_ceiling"]), guarded=True)
        if "budgets" in told:
            named = MEASURES.get(str(measure.get("name"))) if isinstance(measure, Mapping) else INFORMATION
            scale = usual if named is None else Scale(named, usual.ceiling, guarded=True)
            named_budgets = told["budgets"] if isinstance(told["budgets"], Mapping) else {}
            spent = {str(name): float(budget) for name, budget in named_budgets.items() if is_number(budget)}
            exact = spending_words(spent, in_nats=scale.measure.in_nats)
            return cls(conditions.replace(f", {exact}", ""), scale, budgets=spent)
        held, scale, lower = told.get("leakages"), usual, told.get("lower_bound")
        if isinstance(measure, Mapping):
            held, lower, ceiling = told.get("measured"), measure.get("lower_bound"), measure.get("ceiling")
            by = MEASURES.get(str(measure.get("name")))
            if by is None or ceiling is None or not is_number(ceiling):
                return cls(conditions, usual)
            scale = Scale(by, float(ceiling), guarded=True)
        leaked = {str(who): float(value) for who, value in (held or {}).items() if is_number(value)}
        if not leaked or lower is None or not is_number(lower):
            return cls(conditions, scale)
        worst = max(leaked, key=lambda who: leaked[who])
        return cls(conditions, scale, leaked[worst], float(lower), worst if len(leaked) > 1 else "")

    def words(self, rivals: str, say: Rounding) -> list[str]:
        """Say what the release was designed for, and what is proved of it.

        Args:
            rivals: The releases that the bound is about, as they follow the word "no".
            say: How numbers are told.
        """
        spent = [f"{self.scale.told(each, say, 'up')} about {name}" for name, each in self.budgets.items()]
        within = f", to tell at most {'; '.join(spent)}" if spent else ""
        said = [f"It was designed {self.conditions}{within}."]
        if self.leakage is None or (self.scale.usual and not self.who):
            return said  # the promise itself says it
        most, least = self.scale.told(self.leakage, say, "up"), self.scale.told(self.lower_bound, say, "down")
        whole = self.scale.told(self.scale.ceiling, say)
        less = "leaks" if self.scale.usual else "has"
        proved = f"No {rivals} under the same conditions {less} less than {least}: this is proved."
        if not self.scale.usual:
            measure = self.scale.measure
            whose = f" for who learns most, one who knows {self.who}" * bool(self.who)
            amount = "0" if self.leakage <= ZERO else f"at most {most}"
            said.append(
                f"Its {measure.title} ({measure.about}) is {amount}{whose}; "
                f"the public columns themselves have {whole}."
            )
        elif self.leakage <= ZERO:
            said.append(f"None of these attackers, not one who knows {self.who}, learns anything.")
        else:
            said.append(f"Who learns most of these, one who knows {self.who}, learns at most {most}.")
        return said if self.leakage <= ZERO else [*said, proved]

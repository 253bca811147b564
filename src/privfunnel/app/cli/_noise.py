"""``privfunnel solve --design-epsilon``: designs on counts with noise, and what the noise cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from privfunnel.app.cli._screen import say
from privfunnel.app.cli._source import NamedProblem
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document

if TYPE_CHECKING:
    from privfunnel.data.tables import Counts
    from privfunnel.solving.solution import Solution

#: Said of people like those of the table.
WITH_NOISE = "What holds for people like these is not found for designs on counts with noise"
#: Rules for bins that do not depend on the rows, besides edges.
FIXED_BINS = ("year", "quarter", "month", "weekday")


def with_noise(
    opened: NamedProblem, epsilon: float, reading: Mapping[str, Any], *, parts: bool
) -> NamedProblem:
    """What the user named, with noise on its counts; ``parts`` of the rows have no such design."""
    from privfunnel.data.noise import private_counts

    types = dict(reading["types"])
    if parts:
        raise InvalidInputError("--design-epsilon makes a design of all rows: leave --holdout and --view out")
    if opened.counts is None:
        raise InvalidInputError(
            "--design-epsilon adds noise to the counts of rows: give a table of records, with --private and --public"
        )
    for column, rule in reading["bins"].items():
        if rule not in FIXED_BINS and not rule.startswith("edges:"):
            raise InvalidInputError(
                f"--bin {column}={rule} depends on the rows, which noise on the counts does not hide: give the edges, "
                f"e.g. {column}=edges:0,18,65,inf"
            )
        if types.get(column) != "integer" and _merge(column, rule):
            raise InvalidInputError(
                f"--bin {column}={rule} has edges without a whole number between them: whether all numbers are whole, "
                f"which noise does not hide, would show; give others, or --type {column}=integer"
            )
    counts = private_counts(opened.counts, epsilon)
    return NamedProblem(counts.problem(), counts)


def _merge(column: str, rule: str) -> bool:
    """Whether bins would be fewer if all numbers were whole."""
    from privfunnel.data.engines.bins import Rule, merged, parse

    asked = parse(column, rule)
    return isinstance(asked, Rule) and asked.kind == "edges" and merged(asked.edges) != asked.edges


def tell_noise(counts: Counts, solution: Solution, exact: Counts, asked: Document) -> None:
    """Say what the noise cost: what the design does to the real rows, beside a design made for them."""
    from privfunnel import solve
    from privfunnel.audit.promise import channel_for
    from privfunnel.data.noise import known_columns
    from privfunnel.release.mechanism import Mechanism

    exact = known_columns(exact)  # written as the design's are
    problem = exact.problem()
    done = problem.evaluate(channel_for(Mechanism.from_solution(counts, solution), exact)[0])
    best = solve(problem, disclosure=min(done.disclosure, problem.disclosure_ceiling), throw=False, **asked)
    more = f" ({100 * (done.leakage / best.leakage - 1):+.1f} %)" if best.leakage > 1e-9 else ""
    say(
        f"Designed on counts with noise, ε = {counts.epsilon:g}; all of the above is about these. CONFIDENTIAL, what "
        f"the noise cost: on the real rows the design keeps {done.disclosure:.6f} and leaks {done.leakage:.6f} nats; "
        f"made for the exact counts it would leak {best.leakage:.6f}{more}."
    )

"""One point of the trade-off on the screen, in words and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from privfunnel.cli._common import Units, console
from privfunnel.cli._funnels import leaked_share, share

#: Bounds in nats that are this close are one.
CLOSE = 1e-9

if TYPE_CHECKING:
    from privfunnel.solution import Solution
    from privfunnel.tables import Counts
    from privfunnel.threats import Threat


def guarantee_words(solution: Solution) -> list[str]:
    """What the worst output has of each guarantee, in the unit that the guarantee is asked for in."""
    if solution.threat is None:
        return []
    units = {str(each): " nats" if each.in_nats else "" for each in solution.threat.guarantees}
    return [
        f"Guaranteed for every output: {asked}{units[asked]}; the worst one has {reached:.6f}{units[asked]}."
        for asked, reached in solution.guaranteed.items()
    ]


def closed_words(solution: Solution) -> str:
    """Say that a closed form bounds the disclosure where that is lower than what the certificate proves."""
    most = getattr(solution.certificate, "most_disclosure", None)
    upper = solution.disclosure_upper_bound
    if most is None or upper is None or most(solution.budget or 0.0) <= upper + CLOSE:
        return ""
    return "closed form; the certificate proves less"


def show(solution: Solution, *, units: Units, title: str, counts: Counts | None = None) -> None:
    """Print one solution in words and numbers; the counts behind it, where there are any, name the columns."""
    from rich import box
    from rich.table import Table

    from privfunnel.free import free_words
    from privfunnel.report import Axis, explain, view

    problem = solution.problem

    table = Table(title=f"{title} ({units.name})", box=box.SIMPLE_HEAD, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    table.add_row("disclosure I(X;Y)", f"{units.of(solution.disclosure):.9f}",
                  share(solution.disclosure, problem.disclosure_ceiling, "H(X)"))  # fmt: skip

    def leaked(value: float, form: str = ".9f") -> str:
        return format(units.of(value) if solution.unit else value, form)

    name = "leakage I(S;Y)" if solution.threat is None else "largest leakage"
    table.add_row(name, leaked(solution.leakage), leaked_share(solution))
    if solution.threat is not None:
        for row in told_rows(solution, solution.threat, leaked, units):
            table.add_row(*row)
    sought = solution.seeks_disclosure
    if not sought:
        table.add_row("proved lower bound", leaked(solution.lower_bound), solution.bound_source)
        table.add_row("gap", leaked(solution.gap, ".2e"), "")
    if solution.disclosure_upper_bound is not None:
        most = f"{units.of(solution.disclosure_upper_bound):.9f}"
        table.add_row("most disclosure, proved", most, closed_words(solution))
    if sought:
        table.add_row("gap", f"{units.of(solution.gap):.2e}", "of disclosure")
    if solution.slope is not None:
        table.add_row("slope", f"{solution.slope:.6f}", "leakage per disclosure")
    table.add_row("outputs", str(solution.channel.shape[1]), f"for {problem.n_x} public symbols")
    table.add_row("status", solution.status.value, solution.advice)
    table.add_row("solver", solution.solver, f"seed {solution.seed}, {solution.seconds:.1f} s")
    out = console()
    out.print(table)
    for line in filter(None, (free_words(solution), *guarantee_words(solution))):
        out.print(line)
    private, public = (
        (Axis.parse(problem.s_labels, "private"), Axis.parse(problem.x_labels, "public"))
        if counts is None
        else (Axis.of(counts.s_alphabet), Axis.of(counts.x_alphabet))
    )
    meaning = explain(problem, solution.channel, private, public)
    kept = view.share(solution.disclosure, problem.disclosure_ceiling, 1.0)
    said = view.column_words(kept, meaning)
    if said:
        out.print(said)


def told_rows(
    solution: Solution, threat: Threat, leaked: Callable[[float], str], units: Units
) -> Iterator[tuple[str, str, str]]:
    """Rows of what a guarded release tells each attacker, about each column, and by the usual measure."""
    from privfunnel.channels import identity

    problem = solution.problem
    # A budget in percent is of what X itself tells about the column, and so are the shares shown.
    whole = threat.leakages(problem, identity(problem.n_x)) if threat.attributes else {}
    for known, leakage in solution.leakages.items():
        of = share(leakage, whole.get(known, 0.0), "what X itself tells")
        yield f"  {'about' if threat.attributes else 'to who knows'} {known}", leaked(leakage), of
    if threat.attributes:
        told = problem.evaluate(solution.channel, measure=threat.measure).leakage
        yield "  about all of them together", leaked(told), "has no budget"
    if threat.published is not None:
        yield "told by what is published", f"{units.of(solution.published_leakage):.9f}", "I(S;A)"
    if threat.measure != "mutual-information":  # a release may tell much that another measure does not count
        told = problem.evaluate(solution.channel).leakage
        yield (
            "mutual information I(S;Y)", f"{units.of(told):.9f}", share(told, problem.leakage_ceiling, "I(S;X)"),
        )  # fmt: skip

"""One point of the trade-off on the screen, in words and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from privfunnel.app.cli._common import Units, console
from privfunnel.app.cli._distortion import unchanged_words
from privfunnel.app.cli._funnels import leaked_share, share
from privfunnel.app.cli._task import guess_words

#: Bounds in nats that are this close are one.
CLOSE = 1e-9

#: A name, a number and a remark.
Row = tuple[str, str, str]

if TYPE_CHECKING:
    from privfunnel.data.tables import Counts
    from privfunnel.model.question import Quantity
    from privfunnel.model.threat import Threat
    from privfunnel.solving.solution import Solution


def guarantee_words(solution: Solution) -> list[str]:
    """What the worst output has of each guarantee, in the unit that the guarantee is asked for in."""
    if solution.guards.plain:
        return []
    units = {str(each): " nats" if each.in_nats else "" for each in solution.guards.guarantees}
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

    table = Table(title=f"{title} ({units.name})", box=box.SIMPLE_HEAD, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for row in (*_kept(solution, units), *_leaked(solution, units), *_made(solution, units)):
        table.add_row(*row)
    screen = console()
    screen.print(table)
    for line in filter(None, _sentences(solution, counts)):
        screen.print(line, soft_wrap=True)


def _place(solution: Solution, axis: Quantity, units: Units) -> Row:
    """What a release has of an axis."""
    value, costs = solution.values.of(axis), solution.costs
    if costs is not None and axis == "distortion":
        return f"{axis} {axis.symbol}", f"{value:.9f}", costs.words
    ceiling = getattr(solution.problem, f"{axis}_ceiling")
    return f"{axis} {axis.symbol}", f"{units.of(value):.9f}", share(value, ceiling, axis.whole)


def _kept(solution: Solution, units: Units) -> Iterator[Row]:
    """Rows of the axis: what the release has of it, and what is proved where it is the goal."""
    asked, problem = solution.question, solution.problem
    yield _place(solution, asked.axis, units)
    tasks = problem.required_tasks().tasks if asked.axis == "utility" else ()
    for task in tasks if len(tasks) > 1 else ():
        kept = task.information(problem.p_x, solution.channel)
        yield f"  {task.name}", f"{units.of(kept):.9f}", f"weight {task.weight:g}"
    if asked.goal == asked.axis:
        name = f"{'most' if asked.goal.sought_most else 'least'} {asked.goal}, proved"
        bound = solution.bound if asked.goal == "distortion" else units.of(solution.bound)
        within = "within the budget" if asked.limits_leakage else "within the guarantees"
        yield name, f"{bound:.9f}", closed_words(solution) or within


def _leaked(solution: Solution, units: Units) -> Iterator[Row]:
    """Rows of leakage: to whom, what is proved of it, and the gap of the goal."""
    from privfunnel.model.question import Quantity

    def leaked(value: float, form: str = ".9f") -> str:
        return format(units.of(value) if solution.unit else value, form)

    goal, guards = solution.question.goal, solution.guards
    yield guards.leakage_name, leaked(solution.leakage), leaked_share(solution)
    if not guards.plain:
        yield from told_rows(solution, guards, leaked, units)
    if goal in (Quantity.LEAKAGE, Quantity.DISTORTION):
        yield "proved lower bound", leaked(solution.lower_bound), solution.bound_source
    own = goal is Quantity.DISTORTION or (goal is Quantity.LEAKAGE and not solution.unit)
    yield "gap", f"{solution.gap if own else units.of(solution.gap):.2e}", f"of {goal}"


def _made(solution: Solution, units: Units) -> Iterator[Row]:
    """Rows of what else the release discloses, and of how it was found."""
    from privfunnel.model.question import Quantity

    axis, problem = solution.question.axis, solution.problem
    if axis is not Quantity.DISCLOSURE:
        yield _place(solution, Quantity.DISCLOSURE, units)
    if axis is Quantity.DISTORTION:
        yield "slope", f"{units.of(solution.multiplier):.6f}", "leakage saved per distortion"
        same = ", with the table's own distribution" if solution.invariant else ""
        yield "records released", str(int((solution.p_y > 0.0).sum())), f"of {problem.n_x}{same}"
    else:
        if solution.slope is not None:
            yield "slope", f"{solution.slope:.6f}", f"leakage per {axis}"
        yield "outputs", str(solution.channel.shape[1]), f"for {problem.n_x} public symbols"
    yield "status", solution.status.value, solution.advice
    yield "solver", solution.solver, f"seed {solution.seed}, {solution.seconds:.1f} s"


def _sentences(solution: Solution, counts: Counts | None) -> Iterator[str]:
    """What the numbers mean for columns, tasks or records."""
    from privfunnel.solving.free_disclosure import free_words

    axis = solution.question.axis
    if axis == "disclosure":
        yield free_words(solution)
    yield from guarantee_words(solution)
    if axis == "disclosure":
        yield _column_words(solution, counts)
    if axis == "distortion":
        yield unchanged_words(solution)
    elif solution.problem.tasks is not None:
        yield guess_words(solution)


def _column_words(solution: Solution, counts: Counts | None) -> str:
    """How much of all public columns together and of each by itself is kept."""
    from privfunnel.report import Axis, explain, view

    problem = solution.problem
    private, public = (
        (Axis.parse(problem.s_labels, "private"), Axis.parse(problem.x_labels, "public"))
        if counts is None
        else (Axis.of(counts.s_alphabet), Axis.of(counts.x_alphabet))
    )
    kept = view.share(solution.disclosure, problem.disclosure_ceiling, 1.0)
    return view.column_words(kept, explain(problem, solution.channel, private, public))


def told_rows(
    solution: Solution, threat: Threat, leaked: Callable[[float], str], units: Units
) -> Iterator[Row]:
    """Rows of what a guarded release tells each attacker, about each column, and by the usual measure."""
    from privfunnel.model.channels import identity

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
    if not threat.measure.is_information:  # a release may tell much that another measure does not count
        told = problem.evaluate(solution.channel).leakage
        yield (
            "mutual information I(S;Y)", f"{units.of(told):.9f}", share(told, problem.leakage_ceiling, "I(S;X)"),
        )  # fmt: skip

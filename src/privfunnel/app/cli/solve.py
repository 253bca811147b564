"""``privfunnel solve``: one point of the trade-off, and its channel."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from privfunnel.app.cli._common import (
    READING,
    Units,
    guard_options,
    open_source,
    output,
    parse_confidence,
    parse_options,
    progress_on_terminal,
    solver_options,
    source_options,
    tell_files,
    units_option,
)
from privfunnel.app.cli._distortion import cost_options
from privfunnel.app.cli._funnels import POINT_FILES, was_said, write_point
from privfunnel.app.cli._limits import chosen, limit_options, memory_limited, time_limited
from privfunnel.app.cli._noise import WITH_NOISE, tell_noise, with_noise
from privfunnel.app.cli._paths import PathName
from privfunnel.app.cli._point import show
from privfunnel.app.cli._population import OTHERWISE, Again, Rows, view_option
from privfunnel.app.cli._question import asked_of, axis_of, check_one, check_own, guards_of, read_budgets
from privfunnel.app.cli._screen import say
from privfunnel.app.cli._sequel import design_next
from privfunnel.app.cli._source import taken_as
from privfunnel.app.cli._task import as_good
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document

if TYPE_CHECKING:
    from privfunnel.audit import Holdout, Population
    from privfunnel.data.tables import Counts
    from privfunnel.model.problem import Problem
    from privfunnel.solving.solution import Solution

#: The solver as :func:`privfunnel.solve` is told of it, within so many seconds.
Solving = Callable[[float | None], dict[str, Any]]

#: Said of ``--merge-outputs`` without what it takes.
MERGING = (
    "--merge-outputs is for what held-out rows prove at a disclosure: give --holdout and --disclosure too"
)
#: What ``--out`` may leave behind.
OWNED = tuple(sorted((*POINT_FILES, "population.json")))


@click.command(
    "solve", short_help="One point: least leakage for a disclosure, or most disclosure for a leakage."
)
@source_options
@click.option(
    "--disclosure", metavar="R", help="What to keep, at least: 60% (of H(X)), '0.9 bits', '1.2 nats', 1.2."
)
@click.option(
    "--leakage",
    multiple=True,
    metavar="BUDGET",
    help="Instead: what may leak, at most: 5% (of I(S;X)), '0.01 bits', 0.02; or COLUMN=BUDGET, once for each private "
    "column that has one.",
)
@click.option(
    "--distortion", metavar="D", help="Instead: release records for records, changed by at most D on average."
)
@cost_options
@click.option(
    "--utility",
    metavar="R",
    help="Instead, with --task: what to keep of the task, at least: 90% (of I(U;X)), 0.2.",
)
@guard_options
@click.option(
    "--holdout",
    type=float,
    metavar="SHARE",
    help="Hold this share of a table's rows out of the design, and promise for the population from them.",
)
@click.option("--confidence", default="95%", show_default=True, metavar="SHARE", help="Of that promise.")
@click.option(
    "--merge-outputs",
    is_flag=True,
    help="With --holdout: merge outputs where that lowers the leakage that the held-out rows can prove.",
)
@click.option(
    "--design-epsilon",
    type=float,
    metavar="EPSILON",
    help="Add noise to the counts first, so that the design is differentially private and may be published, e.g. 1.",
)
@click.option(
    "--ledger",
    type=PathName(),
    metavar="FILE",
    help="The ledger of SOURCE: design the next release, given the earlier ones; what is asked is about all together.",
)
@view_option
@solver_options
@limit_options
@units_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, channel included, instead of a summary.")
@click.option(
    "--out",
    type=PathName(),
    metavar="DIR",
    help="Folder for solution.json (in nats), its certificate and, for a table of records, mechanism.json; all of "
    "them confidential.",
)
def command(**given: Any) -> None:
    """Find the best channel for SOURCE at one point of its privacy funnel.

    With --disclosure R the leakage I(S;Y) is minimised among channels with I(X;Y) ≥ R; with --leakage BUDGET the
    disclosure is maximised among channels with I(S;Y) ≤ BUDGET. With --known the leakage is the largest I(S;Y|A) of
    attackers who know these columns or nothing; with --published it is I(S;Y|A) given what is published; with
    --guarantee alone the most disclosure is found that it allows.

    With --distortion D records are released for records: the leakage is minimised among channels that change them by at
    most D on average, as --cost counts changes; with --cost or --invariant and --leakage the least distortion is found.

    With --task and --utility R the leakage is minimised among releases that keep I(U;Y) ≥ R of the task U, and disclose
    what --disclosure asks for; with --task and --leakage the utility is maximised, with --task and --guarantee alone
    within what it allows.

    \b
    Examples:
      privfunnel solve heart-failure --disclosure 60%
      privfunnel solve heart-failure --leakage '0.01 bits' --json
      privfunnel solve patients.csv --private sex,death --public smoking,diabetes --disclosure 60% --out design
      privfunnel solve heart-failure --leakage 0 --known anaemia --known smoking,diabetes
      privfunnel solve heart-failure --guarantee lip=0.2
      privfunnel solve people.csv --private sex --public age,job --task income --utility 90% --known age
      privfunnel solve heart-failure --disclosure 60% --measure maximal-leakage
      privfunnel solve heart-failure --leakage sex=0.01 --leakage death=5%
      privfunnel solve patients.csv --private sex --public age,smoking --bin age=5 --distortion 0.2 --cost age=ordinal
      privfunnel solve patients.csv --private sex --public smoking,diabetes --leakage 5% --ledger ledger.json
      privfunnel solve patients.csv --private sex --public smoking,diabetes --leakage 0 --holdout 0.3 --confidence 95%
    """
    reading = {name: given[name] for name in READING}
    axis = axis_of(given)
    if axis == "disclosure" and given["ledger"] is not None:
        design_next(given, reading)
        return
    check_own(axis, given)
    plain = axis == "disclosure" and not _guarded(given)
    _check_together(axis, given, plain=plain)
    units, epsilon, out = given["units"], given["design_epsilon"], given["out"]
    with taken_as(given["view"]):
        opened = exact = open_source(given["source"], units=units.name, **reading)
    if epsilon is not None:
        parts = given["holdout"] is not None or given["view"] == "sample"
        opened = with_noise(opened, epsilon, reading, parts=parts)
    asked = asked_of(opened, given)
    if given["holdout"] is not None or given["view"] == "sample":
        _check_beyond(guarded=not plain, rows=given["holdout"] is None or opened.counts is not None)
    options, seconds = time_limited(parse_options(given["options"], given["restarts"]), given["time_limit"])
    rows = Rows(given["source"], opened, given["view"], seconds)
    same = partial(chosen, given["solver"], options, guarded=not plain)
    with memory_limited(given["memory_limit"]), output(out, OWNED) as folder:
        with progress_on_terminal(f"solving {given['source']}", quiet=given["as_json"]) as progress:
            asked |= same(rows.own_limit) | {"seed": given["seed"], "progress": progress}
            found = _designed(rows, given, asked, same, plain=plain)
        if folder is not None:
            _write(folder, found)
    if given["as_json"]:
        say(json.dumps(_to_json(found, rows, given), indent=1))
        rows.end()
        return
    show(found.solution, units=units, title=given["source"], counts=found.counts)
    _tell_instead(found.solution, found.counts, units)
    _tell_beyond(found.beyond, units, found.said)
    if epsilon is not None and found.counts is not None and exact.counts is not None:
        tell_noise(found.counts, found.solution, exact.counts, same(rows.own_limit) | {"seed": given["seed"]})
        if out is not None:
            say(f"Files are in {out}: made of the noisy counts alone, they may be published.")
        return
    tell_files(out, OWNED, [found.solution])
    rows.end()


class Designed(NamedTuple):
    """A design: the rows it was made of, the solution, what holds beyond these, and what is said of that."""

    counts: Counts | None
    solution: Solution
    beyond: Holdout | Population | None = None
    said: str = ""


def _guarded(given: Mapping[str, Any]) -> bool:
    """Whether releases are guarded against more than who knows nothing."""
    budget = read_budgets(given["leakage"], given["units"], given["measure"])
    return bool(guards_of(given)) or isinstance(budget, dict)


def _check_together(axis: str, given: Mapping[str, Any], *, plain: bool) -> None:
    """Refuse options that do not go together, by the command's; what is asked for must be one thing."""
    apart, noisy = given["holdout"] is not None, given["design_epsilon"] is not None
    if given["merge_outputs"] and (not apart or given["disclosure"] is None):
        raise InvalidInputError(MERGING)
    check_one(axis, given)
    if given["task"] and (apart or noisy):
        raise InvalidInputError(
            "--task is for releases that are designed on all rows, without noise: leave it out, or --holdout and "
            "--design-epsilon"
        )
    alone = not plain or noisy or (given["view"] == "register" and not apart)
    if was_said("confidence") and alone:
        raise InvalidInputError(
            "--confidence is of what rows prove about people like these, which is found for plain releases of a sample "
            "without noise: leave it out"
        )


def _check_beyond(*, guarded: bool, rows: bool) -> None:
    """Refuse what held-out rows and samples cannot be asked: a guarded release, and a share of no rows."""
    if guarded:
        raise InvalidInputError(
            "--holdout and --view sample are about mutual information and attackers who know nothing: leave --known, "
            "--published, --guarantee, --measure and budgets of single columns out"
        )
    if not rows:
        raise InvalidInputError(
            "--holdout holds rows out: give a table of records, with --private and --public"
        )


def _designed(
    rows: Rows, given: Mapping[str, Any], asked: Document, same: Solving, *, plain: bool
) -> Designed:
    """Design on all rows, and then on parts of them, or on those that are not held out.

    Args:
        rows: The rows.
        given: The options of the command.
        asked: What is asked of the design, and how it is made.
        same: The solver within so many seconds.
        plain: Whether it is the plain funnel that is asked about.
    """
    from privfunnel import solve

    opened, sure = rows.opened, parse_confidence(given["confidence"])
    if given["holdout"] is not None and opened.counts is not None:
        asked = asked | {"merge": True} if given["merge_outputs"] else asked
        return _held_out(given, opened.counts, sure, asked)
    with rows.timed():
        solution = solve(opened.problem, **asked)
    left_out = OTHERWISE if not plain else "" if given["design_epsilon"] is None else WITH_NOISE
    return Designed(opened.counts, solution, *_people(rows, sure, asked, same, left_out))


def _write(folder: Path, found: Designed) -> None:
    """Write the solution, its proof, its mechanism and what holds for the population, as far as there are any."""
    write_point(folder, found.solution, found.counts)
    if found.beyond is not None:
        from privfunnel.infra.storage import PRIVATE, write_json

        write_json(folder / "population.json", found.beyond.to_dict(), mode=PRIVATE)


def _to_json(found: Designed, rows: Rows, given: Mapping[str, Any]) -> Document:
    """The solution, and of the usual funnel what the table is taken as and what holds for the population."""
    told: Document = found.solution.to_dict()
    if found.solution.question.axis == "disclosure":
        told["view"] = rows.taken
    if found.beyond is not None:
        told["population" if given["holdout"] is None else "holdout"] = found.beyond.to_dict()
    return told


def _tell_beyond(found: Holdout | Population | None, units: Units, remark: str) -> None:
    """Say what other rows than those of the design prove, and what is left open."""
    from privfunnel.model.amounts import spoken_in

    with spoken_in(units.name):
        told = found.words() if found is not None else []
    for line in filter(None, (*told, remark)):
        say(f"• {line}")


def _held_out(given: Mapping[str, Any], counts: Counts, confidence: float, asked: Document) -> Designed:
    """Design without a share of the rows: the rows of the design, the solution, and what the others prove."""
    from privfunnel import audit

    people = audit.rows_of(given["source"], counts) if counts.unequal else None
    found = audit.guaranteed(counts, share=given["holdout"], confidence=confidence, people=people, **asked)
    return Designed(found.counts, found.solution, found.holdout)


def _people(
    rows: Rows,
    confidence: float,
    asked: Document,
    solver: Solving,
    left_out: str,
) -> tuple[Population | None, str]:
    """What designs made in this way leak in the population, or what to say in its place.

    Args:
        rows: The rows of the design.
        confidence: Of each bound.
        asked: What was asked of the design.
        solver: Its solver, within so many seconds.
        left_out: Why nothing of the kind is found for such a design; empty where it is.
    """
    from privfunnel import audit

    if left_out:
        return None, rows.without(left_out)
    counts, kind = rows.opened.counts, rows.opened.kind
    weighted = counts is not None and counts.weights is not None
    classes = {} if counts is None or counts.scores is None else {"classes": counts.scores.rule}

    def again(part: Problem | Counts, how: Again) -> Population:
        how_asked = asked | solver(how.seconds) | classes
        found = audit.cross_fitted(part, confidence=confidence, splits=how.splits, **how_asked)
        return replace(found, persons=kind == "persons", clusters=kind == "clusters", weighted=weighted)

    return rows.beyond(again)


def _tell_instead(solution: Solution, counts: Counts | None, units: Units) -> None:
    """Say what one would do otherwise at the same leakage, or to be as good for the task."""
    from privfunnel.neighbours.alternatives import instead

    plain, asked, told = solution.guards.plain, solution.question, []
    if asked.axis == "utility":
        others = as_good(solution.problem, solution.utility, counts)
        told = [each.words(units.name, guarded=not plain) for each in others]
    elif asked.axis == "disclosure" and counts is not None and plain:
        told = [
            each.words for each in instead(counts.x_alphabet, counts.table() / counts.n, solution.leakage)
        ]
    for words in told:
        say(f"Instead: {words}")

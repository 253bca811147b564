"""``privfunnel solve``: one point of the trade-off, and its channel."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfunnel.cli import _task
from privfunnel.cli._beyond import OTHERWISE, Again, Rows, view_option
from privfunnel.cli._common import (
    Units,
    guard_options,
    open_source,
    output,
    parse_confidence,
    parse_guards,
    parse_options,
    parse_quantity,
    progress_on_terminal,
    solver_options,
    source_options,
    tell_files,
    units_option,
    unquoted,
)
from privfunnel.cli._distortion import cost_options, solve_point
from privfunnel.cli._funnels import POINT_FILES, was_said, write_point
from privfunnel.cli._limits import chosen, limit_options, memory_limited
from privfunnel.cli._noise import WITH_NOISE, tell_noise, with_noise
from privfunnel.cli._paths import PathName
from privfunnel.cli._point import show
from privfunnel.cli._screen import say
from privfunnel.cli._sequel import design_next
from privfunnel.errors import InvalidInputError

if TYPE_CHECKING:
    from privfunnel.audit import Holdout, Population
    from privfunnel.problem import Problem
    from privfunnel.solution import Solution
    from privfunnel.tables import Counts

#: Measures of leakage that have a unit; None is the default one.
IN_NATS = (None, "mutual-information", "maximal-leakage")
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
def command(
    source: str,
    disclosure: str | None,
    leakage: tuple[str, ...],
    distortion: str | None,
    costs: dict[str, Any] | None,
    invariant: bool,
    utility: str | None,
    known: tuple[list[str], ...],
    published: tuple[str, ...],
    guarantees: tuple[str, ...],
    measure: str | None,
    holdout: float | None,
    confidence: str,
    merge_outputs: bool,
    design_epsilon: float | None,
    ledger: Path | None,
    view: str | None,
    solver: str,
    restarts: int | None,
    options: tuple[str, ...],
    seed: int,
    time_limit: float | None,
    memory_limit: str | None,
    units: Units,
    as_json: bool,
    out: Path | None,
    **reading: Any,
) -> None:
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
    from privfunnel import solve

    if _other_funnel(click.get_current_context().params, reading):
        return
    guards = parse_guards(known, published, guarantees, measure)
    budget = read_budgets(leakage, units, measure)
    guarded = bool(guards) or isinstance(budget, dict)
    _check_together(click.get_current_context().params, reading, guarded=guarded)
    opened, exact = open_source(source, units=units.name, **reading), None
    if design_epsilon is not None:
        parts = holdout is not None or view == "sample"
        opened, exact = with_noise(opened, design_epsilon, reading["bins"], parts=parts), opened.counts
    problem = opened.problem
    asked = guards | _wanted(problem, disclosure, budget, units, measure)
    if holdout is not None or view == "sample":
        _check_beyond(guarded=guarded, rows=holdout is None or opened.counts is not None)
    sure, found, beyond, said = parse_confidence(confidence), None, None, ""
    counts, rows = opened.counts, Rows(source, opened, view, time_limit)
    with memory_limited(memory_limit), output(out, OWNED) as folder:
        given = parse_options(options, restarts)
        method = chosen(solver, given, rows.own_limit, guarded=guarded)
        with progress_on_terminal(f"solving {source}", quiet=as_json) as progress:
            asked |= method | {"seed": seed, "progress": progress}
            if holdout is not None and counts is not None:
                counts, solution, found = _held_out(
                    source, counts, holdout, sure, asked | {"merge": True} if merge_outputs else asked
                )
            else:
                with rows.timed():
                    solution = solve(problem, **asked)
                left_out = OTHERWISE if guarded else "" if design_epsilon is None else WITH_NOISE
                same = partial(chosen, solver, given, guarded=False)
                beyond, said = _people(rows, sure, asked, same, left_out)
        if folder is not None:
            _write(folder, solution, counts, found or beyond)
    if as_json:
        others = {"holdout": found, "population": beyond}
        more = {name: each.to_dict() for name, each in others.items() if each is not None}
        say(json.dumps(solution.to_dict() | {"view": rows.taken} | more, indent=1))
        rows.end()
        return
    show(solution, units=units, title=source, counts=counts)
    if solution.problem.tasks is not None:
        say(_task.guess_words(solution))
    if counts is not None and solution.threat is None:
        _tell_instead(counts, solution.leakage)
    _tell_beyond(found or beyond, units, said)
    if design_epsilon is not None and counts is not None and exact is not None:
        tell_noise(counts, solution, exact, method | {"seed": seed})
        if out is not None:
            say(f"Files are in {out}: made of the noisy counts alone, they may be published.")
        return
    tell_files(out, OWNED, [solution])
    rows.end()


def _other_funnel(given: dict[str, Any], reading: dict[str, Any]) -> bool:
    """Solve what is asked of another funnel than the plain and the guarded ones, by the command's options; if it is."""
    if given["distortion"] is not None or given["costs"] or given["invariant"]:
        solve_point(given, reading)
    elif given["utility"] is not None or (reading["task"] and given["disclosure"] is None):
        _task.solve_point(given, reading)
    elif given["ledger"] is not None:
        design_next(given, reading)
    else:
        return False
    return True


def _check_together(given: dict[str, Any], reading: dict[str, Any], *, guarded: bool) -> None:
    """Refuse options that do not go together, by the command's; what is asked for must be one thing."""
    apart, noisy = given["holdout"] is not None, given["design_epsilon"] is not None
    if given["merge_outputs"] and (not apart or given["disclosure"] is None):
        raise InvalidInputError(MERGING)
    neither = given["disclosure"] is None and not given["leakage"] and bool(given["guarantees"])
    if not neither and (given["disclosure"] is None) == (not given["leakage"]):
        raise InvalidInputError(
            "give exactly one of --disclosure (what to keep) and --leakage (what may leak)"
        )
    if reading["task"] and (apart or noisy):
        raise InvalidInputError(
            "--task is for releases that are designed on all rows, without noise: leave it out, or --holdout and "
            "--design-epsilon"
        )
    alone = guarded or noisy or (given["view"] == "register" and not apart)
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


def read_budgets(given: tuple[str, ...], units: Units, measure: str | None) -> str | dict[str, str] | None:
    """What may leak as it was written: one amount, or one for each private column; None for nothing."""
    from privfunnel.quantities import bare_number

    named = [each.rpartition("=") for each in given if "=" in each]
    if not named and len(given) <= 1:
        return given[0] if given else None
    if len(named) < len(given) or not all(column.strip() for column, _, _ in named):
        raise InvalidInputError("give --leakage once, or as COLUMN=BUDGET for each private column")
    in_bits = units.name == "bits" and measure in IN_NATS
    made = {
        unquoted(column): f"{amount} bits" if in_bits and bare_number(amount) is not None else amount
        for column, _, amount in named
    }
    if len(made) < len(named):
        raise InvalidInputError("--leakage names a column twice: give one budget for each")
    return made


def _wanted(
    problem: Problem,
    disclosure: str | None,
    leakage: str | dict[str, str] | None,
    units: Units,
    measure: str | None = None,
) -> dict[str, Any]:
    """What was asked for, in nats; budgets of columns, or by a measure without unit, are read where they are used."""
    if disclosure is not None:
        ceiling = problem.disclosure_ceiling
        return {
            "disclosure": parse_quantity(
                disclosure, ceiling=ceiling, whole="H(X)", option="--disclosure", units=units
            )
        }
    if leakage is None:
        return {}  # the most that the guarantees allow
    if isinstance(leakage, dict) or measure not in IN_NATS:
        return {"leakage": leakage}
    ceiling = problem.leakage_ceiling
    if measure == "maximal-leakage":
        from privfunnel import channels

        ceiling = problem.evaluate(channels.identity(problem.n_x), measure=measure).leakage
    return {
        "leakage": parse_quantity(leakage, ceiling=ceiling, whole="I(S;X)", option="--leakage", units=units)
    }


def _write(
    folder: Path, solution: Solution, counts: Counts | None, beyond: Holdout | Population | None
) -> None:
    """Write the solution, its proof, its mechanism and what holds for the population, as far as there are any."""
    write_point(folder, solution, counts)
    if beyond is not None:
        from privfunnel.storage import PRIVATE, write_json

        write_json(folder / "population.json", beyond.to_dict(), mode=PRIVATE)


def _tell_beyond(found: Holdout | Population | None, units: Units, remark: str) -> None:
    """Say what other rows than those of the design prove, and what is left open."""
    from privfunnel.quantities import spoken_in

    with spoken_in(units.name):
        told = found.words() if found is not None else []
    for line in filter(None, (*told, remark)):
        say(f"• {line}")


def _held_out(
    source: str, counts: Counts, share: float, confidence: float, asked: dict[str, Any]
) -> tuple[Counts, Solution, Holdout]:
    """Design without a share of the rows: the rows of the design, the solution, and what the others prove."""
    from privfunnel import audit

    people = audit.rows_of(source, counts) if counts.unequal else None
    found = audit.guaranteed(counts, share=share, confidence=confidence, people=people, **asked)
    return found.counts, found.solution, found.holdout


def _people(
    rows: Rows,
    confidence: float,
    asked: dict[str, Any],
    solver: Callable[[float | None], dict[str, Any]],
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


def _tell_instead(counts: Counts, leakage: float) -> None:
    """Say what one would do otherwise at the same leakage."""
    from privfunnel.alternatives import instead

    for each in instead(counts.x_alphabet, counts.table() / counts.n, leakage):
        say(f"Instead: {each.words}")

"""The report: one HTML file that a review board can sign, complete without a network."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from html import escape
from importlib import resources

from privfunnel._version import __version__
from privfunnel.audit import Audit, PopulationBand, Usefulness
from privfunnel.data.population.views import View
from privfunnel.infra.storage import write_text
from privfunnel.model.question import Quantity
from privfunnel.neighbours.task_alternatives import TaskAlternative
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.publication import THRESHOLD, Policy
from privfunnel.report import detail, front, parts
from privfunnel.report.axes import Axis
from privfunnel.report.chart import Line
from privfunnel.report.described import Described
from privfunnel.report.from_audit import AS_A_REGISTER, audit_section, noise_words, population_words, taken_as
from privfunnel.report.meaning import among
from privfunnel.report.parts import Section
from privfunnel.report.review_board import questions_section
from privfunnel.report.rounding import Rounding
from privfunnel.report.survival import survival_section
from privfunnel.report.task_models import usefulness_section
from privfunnel.solving.curve import Curve
from privfunnel.solving.solution import Solution

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"

#: What stands for a row, by the form of the release that the audit has read.
FORMS = {
    "records": "values of the same columns",
    "decoys": "a short list of candidates with weights, its own values and decoys",
    "symbols": "a symbol, whose meaning is in the codebook",
}

#: Sources of a mechanism's bound that need no certificate, or left none.
UNCERTIFIED = (None, "zero", "closed form")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What goes into a report besides the curve or the mechanism.

    Attributes:
        title: Heading.
        source: What was analysed, as a person would name it.
        chosen: The point to be released, described in detail.
        records: The mechanism of the chosen point, where records are released: what is said of the release is then
            about records, which are drawn from the mechanism's symbols and keep less.
        private: The private symbols as attributes; read from the labels by default.
        public: The public symbols as attributes; read from the labels by default.
        persons: How many people the rows of a curve's table are about, where that is known: numbers come in steps worth
            as many of them.
        others: Other methods' curves by name, drawn for comparison: a curve, or points (disclosure, leakage) in nats.
        population: What holds for people like those of the table, drawn beside the curve.
        view: What the table of a curve is taken as; by default a sample where its rows are few.
        audit: An audit of the release.
        alternatives: What else could be published: a name, disclosure and leakage in nats; what the audit found by
            default.
        task_alternatives: The same for a release for a task: what else is as good for it, and what that leaks.
        usefulness: How well models of the task, and of private columns, do that are trained on the release.
        form: What replaces a row's public values; by default what the audited file has, records where none was read.
        threshold: What fewer rows have is not told, and numbers come in steps worth as many.
        contact: Who is to be asked; a line to fill in by default.
        sections: Further sections.
        table: What to check certificates against, as the command line takes it, e.g. ``p.csv --private sex --public
            age``; the file ``problem.json`` by default.
        command: The command that makes the same again; a seed in it is left out.
        created: Time stamp; now by default.
    """

    title: str = "Privacy funnel report"
    source: str = ""
    chosen: Solution | None = None
    records: Mechanism | None = None
    private: Axis | None = None
    public: Axis | None = None
    persons: int | None = None
    others: Mapping[str, Curve | Line] = field(default_factory=dict)
    population: PopulationBand | None = None
    view: View | None = None
    audit: Audit | None = None
    alternatives: Sequence[tuple[str, float, float]] = ()
    task_alternatives: Sequence[TaskAlternative] = ()
    usefulness: Sequence[Usefulness] = ()
    form: str = ""
    threshold: int = THRESHOLD
    contact: str = ""
    sections: Sequence[Section] = ()
    table: str = ""
    command: str = ""
    created: datetime | None = None


def render(found: Curve | Mechanism, report: Report | None = None) -> str:
    """Return the report as HTML text, with numbers that may be published.

    Args:
        found: The traced curve, of a plain funnel, a task or a distortion, or the mechanism of a release.
        report: What else to say; see :class:`Report`.
    """
    report = report or Report()
    curve = None if isinstance(found, Mechanism) else found
    release = _release(found, report)
    rows = _people(curve, report) if curve is not None else release.rows if release is not None else None
    say = Rounding(rows, Policy(report.threshold))
    named = None if release is None else say.named(release.private.alphabet, release.p_sy.sum(axis=1))
    if release is not None and named is not None:
        release = replace(release, meaning=among(release.meaning, release.p_sy, named))
    body = [_first_page(found, release, report, say)]
    if release is not None and (asked := questions_section(release, report.audit, say)) is not None:
        body.append(parts.section(asked))
    drawing, points = ("", "") if curve is None else _curve_sections(curve, report, say)
    body.append(drawing)
    if release is not None:
        body.append(detail.release_section(release, say))
    body.append(points)
    if release is not None:
        useful = usefulness_section(report.usefulness, release.private.names, say)
        body += [] if useful is None else [parts.section(useful)]
    if report.audit is not None:
        if report.audit.fidelity is not None and say.detailed:
            body.append(parts.section(survival_section(report.audit.fidelity, say, report.audit.models)))
        rare = () if release is None or named is None else release.private.labelled(~named)
        body.append(parts.section(audit_section(report.audit, say.policy, rare)))
    body += [parts.section(section) for section in report.sections]
    certified = (
        any(s.certificate is not None for s in found.solutions)
        if not isinstance(found, Mechanism)
        else found.promise.get("bound_source") not in UNCERTIFIED
    )
    designed = isinstance(found, Mechanism)
    body += [
        detail.verify_section(certified, report.table, designed=designed),
        _provenance(found, report, say),
    ]
    return _page(report.title, body)


def _curve_sections(curve: Curve, report: Report, say: Rounding) -> tuple[str, str]:
    """The drawing of a curve, and its points with what other methods leak beside them."""
    # Of few rows many numbers together tell too much.
    people = report.population if say.detailed and curve.axis is Quantity.DISCLOSURE else None
    points = detail.points_section(curve, say, people)
    points += detail.others_section(curve, report.others, say) if report.others else ""
    return detail.curve_section(curve, report.chosen, report.others, say, people), points


def write(path: str | os.PathLike[str], found: Curve | Mechanism, report: Report | None = None) -> None:
    """Write the report of a curve or a mechanism to a file, in one piece.

    Raises:
        InvalidInputError: The file cannot be written, or the threshold is less than 2.
    """
    write_text(path, render(found, report))


def _release(found: Curve | Mechanism, report: Report) -> Described | None:
    """The release that the report is about, or None where no point has been chosen."""
    if isinstance(found, Mechanism):
        if (
            report.audit is not None and report.audit.fidelity is not None
        ):  # the file that was audited holds records
            return Described.of_records(found, Policy(report.audit.threshold))
        return Described.of_mechanism(found)
    if report.chosen is None:
        return None
    if report.records is not None:
        return Described.of_records(report.records, Policy(report.threshold))
    described = Described.of_solution(report.chosen, report.private, report.public)
    return replace(described, rows=_people(found, report))


def _people(curve: Curve, report: Report) -> float | None:
    """The rows of a curve's table, or the people that they are about, where these are known."""
    return curve.problem.n if report.persons is None else float(report.persons)


def _page(title: str, body: Sequence[str]) -> str:
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_asset('base.css')}{_asset('report.css')}</style>\n</head>\n"
        f"<body>\n<main>\n{''.join(body)}</main>\n"
        f"<footer>Made by privfunnel {escape(__version__)}. "
        "Everything is in this file; it loads nothing.</footer>\n"
        f"<script>\n{_asset('chart.js')}\n"
        'document.querySelectorAll("figure.funnel").forEach((f) => privfunnel.funnel(f, {}));\n'
        "privfunnel.heatmaps(document);\nprivfunnel.lookups(document);\n</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return resources.files("privfunnel.report").joinpath("assets", name).read_text("utf-8")


def _first_page(found: Curve | Mechanism, release: Described | None, report: Report, say: Rounding) -> str:
    """What a board reads and signs; without a chosen point, what the report is about."""
    what = f"{escape(report.source)}: " if report.source else ""
    head = (
        f'<header class="front"><h1>{escape(report.title)}</h1>'
        f'<p class="quiet">{what}{escape(_sizes(found, report, say))}.</p></header>'
    )
    seen = report.population is not None and say.detailed
    if release is not None:
        tried = [] if report.audit is None else report.audit.instead
        found_instead = report.alternatives or [
            (each.method, each.disclosure, each.leakage) for each in tried
        ]
        if report.audit is None:
            shape = (release.p_sy.shape[0], len(release.p_x))
            told = [taken_as(shape, release.rows, release.leakage_ceiling, report.view, seen=seen)]
        else:
            told = [
                *noise_words(report.audit, say),
                *(population_words(report.audit, say) or [AS_A_REGISTER]),
            ]
        instead = front.Instead(found_instead, report.task_alternatives)
        written = (report.audit and report.audit.form) or "records"
        page = front.board(release, say, form=report.form or FORMS[written], instead=instead, beyond=told)
        return f'<section class="board">{head}{page}{front.signatures(report.contact)}</section>'
    assert not isinstance(found, Mechanism)  # which is a release
    private = report.private or Axis.parse(found.problem.s_labels, "private")
    public = report.public or Axis.parse(found.problem.x_labels, "public")
    none = "No point of the curve has been chosen: this report says what is possible, and approves nothing."
    problem = found.problem
    told = [taken_as((problem.n_s, problem.n_x), problem.n, problem.leakage_ceiling, report.view, seen=seen)]
    tasks = () if problem.tasks is None else problem.tasks.names
    page = f"{parts.paragraphs([none, *told])}{front.columns_section(private, public, tasks)}"
    return f'<section class="board">{head}{page}</section>'


def _sizes(found: Curve | Mechanism, report: Report, say: Rounding) -> str:
    if isinstance(found, Mechanism):
        n_s, n_x, rows, people = (
            len(found.s_alphabet),
            len(found.x_alphabet),
            found.rows or None,
            found.persons,
        )
    else:
        n_s, n_x, rows, people = found.problem.n_s, found.problem.n_x, found.problem.n, report.persons
    told = "" if rows is None else f", {say.count(rows)} rows"
    told += "" if rows is None or people is None else f" of {say.count(people)} persons"
    return f"{n_s} private × {n_x} public symbols{told}"


def _provenance(found: Curve | Mechanism, report: Report, say: Rounding) -> str:
    created = (report.created or datetime.now(UTC)).astimezone(UTC)
    by = found.provenance.get("solver", "not known") if isinstance(found, Mechanism) else found.solver
    facts = [
        ("Source", report.source or "not named"),
        ("Table", _sizes(found, report, say)),
        ("Solver", str(by)),
        (
            "Numbers",
            f"rounded for publication, threshold {say.threshold} rows: shares in steps of {100 * say.step:g} %",
        ),
    ]
    return detail.provenance_section(facts, created, _without_seed(report.command))


def _without_seed(command: str) -> str:
    """The command without its seed, with which whoever guesses the table could check the guess."""
    return re.sub(r"\s--seed[ =]\S+", "", command)

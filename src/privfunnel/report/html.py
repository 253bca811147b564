"""The report: one HTML file that can be mailed to a review board, complete without a network."""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from importlib import resources

from privfunnel._version import __version__
from privfunnel.curve import Curve
from privfunnel.guessing import Guess
from privfunnel.measures import to_bits
from privfunnel.report import view
from privfunnel.report.axes import Axis
from privfunnel.report.chart import Line, Series, figure
from privfunnel.report.meaning import Kept, explain
from privfunnel.solution import Solution
from privfunnel.storage import write_text

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_LIBRARIES = ("numpy", "scipy", "highspy", "numba", "duckdb")


@dataclass(frozen=True, kw_only=True)
class Section:
    """A further section, e.g. an audit: a heading, sentences, and tables of texts.

    Attributes:
        title: The heading.
        words: Paragraphs.
        tables: Each a caption, the column heads, and rows of texts.
    """

    title: str
    words: Sequence[str] = ()
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = ()


@dataclass(frozen=True, kw_only=True)
class Report:
    """What goes into a report besides the curve.

    Attributes:
        title: Heading.
        source: What was analysed, as a person would name it.
        chosen: The point to be released, described in detail.
        private: The private symbols as attributes; read from the labels by default.
        public: The public symbols as attributes; read from the labels by default.
        others: Other methods' curves by name, drawn for comparison: a curve, or points (disclosure, leakage) in nats.
        sections: Further sections, an audit for one.
        table: What to check certificates against, as the command line takes it, e.g. ``p.csv --private sex --public
            age``; the file ``problem.json`` by default.
        command: The command that makes the same again.
        created: Time stamp; now by default.
    """

    title: str = "Privacy funnel report"
    source: str = ""
    chosen: Solution | None = None
    private: Axis | None = None
    public: Axis | None = None
    others: Mapping[str, Curve | Line] = field(default_factory=dict)
    sections: Sequence[Section] = ()
    table: str = ""
    command: str = ""
    created: datetime | None = None


def render(curve: Curve, report: Report | None = None) -> str:
    """Return the report as HTML text.

    Args:
        curve: The traced curve.
        report: What else to say; see :class:`Report`.
    """
    report = report or Report()
    parts = [_front(curve, report), _curve_section(curve, report)]
    if report.chosen is not None:
        parts.append(_chosen_section(report.chosen, report))
    parts.append(_points_section(curve))
    if report.others:
        parts.append(_others_section(curve, report.others))
    parts += [_section(section) for section in report.sections]
    parts += [_verify_section(curve, report), _limits_section(), _provenance_section(curve, report)]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(report.title)}</title>\n<style>\n{_asset('base.css')}{_asset('report.css')}</style>\n</head>\n"
        f"<body>\n{parts[0]}\n<main>\n{''.join(parts[1:])}</main>\n"
        f"<footer>Made by privfunnel {escape(__version__)}. "
        "Everything is in this file; it loads nothing.</footer>\n"
        f"<script>\n{_asset('chart.js')}\n"
        'document.querySelectorAll("figure.funnel").forEach((f) => privfunnel.funnel(f, {}));\n'
        "privfunnel.heatmaps(document);\n</script>\n</body>\n</html>\n"
    )


def write(path: str | os.PathLike[str], curve: Curve, report: Report | None = None) -> None:
    """Write the report to a file, in one piece.

    Raises:
        InvalidInputError: The file cannot be written.
    """
    write_text(path, render(curve, report))


def _asset(name: str) -> str:
    return resources.files("privfunnel.report").joinpath("assets", name).read_text("utf-8")


def _front(curve: Curve, report: Report) -> str:
    problem = curve.problem
    rows = "" if problem.n is None else f" counted from {problem.n:,.0f} rows"
    what = f"{escape(report.source)}: " if report.source else ""
    return (
        f'<header class="front"><h1>{escape(report.title)}</h1>'
        f'<p class="quiet">{what}{problem.n_s} private × {problem.n_x} public symbols{rows}.</p></header>'
    )


def _curve_section(curve: Curve, report: Report) -> str:
    problem = curve.problem
    free = problem.free_disclosure
    others = [Series(name, _points(other)) for name, other in report.others.items()]
    picture = view.picture(curve, free_disclosure=free, chosen=report.chosen, others=others)
    h_x, i_sx = to_bits(problem.disclosure_ceiling), to_bits(problem.leakage_ceiling)
    lead = f"The public data holds {h_x:.3f} bits. Released as it is, it leaks {i_sx:.4f} bits about the private data. "
    lead += (
        f"Up to {to_bits(free):.3f} bits ({view.percent(view.share(free, problem.disclosure_ceiling, 1.0))}) can be "
        "released without leaking anything."
        if free > 0.0
        else "No release that leaks nothing was found."
    )
    return (
        f'<section><h2>The trade-off</h2><p class="lead">{lead}</p>{figure(picture)}'
        f'<p class="small quiet">{escape(view.curve_note(curve))}</p></section>'
    )


def _fact(name: str, value: str, more: str) -> str:
    return f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(more)}</small></dd></div>"


def _chosen_section(chosen: Solution, report: Report) -> str:
    problem = chosen.problem
    private = report.private or Axis.parse(problem.s_labels, "private")
    public = report.public or Axis.parse(problem.x_labels, "public")
    meaning = explain(problem, chosen.channel, private, public)
    facts = "".join(
        (
            _fact("Disclosed", f"{to_bits(chosen.disclosure):.3f} bits",
                  f"{view.percent(view.share(chosen.disclosure, problem.disclosure_ceiling, 1.0))} of H(X)"),
            _fact("Leaked", f"{to_bits(chosen.leakage):.4f} bits",
                  f"{view.percent(view.share(chosen.leakage, problem.leakage_ceiling, 0.0))} of I(S;X)"),
            _fact("No release leaks less than", f"{to_bits(chosen.lower_bound):.4f} bits",
                  view.proof_text(chosen)),
            _fact("Gap", f"{to_bits(chosen.gap):.2g} bits", view.status_text(chosen.status)),
        )
    )  # fmt: skip
    worst = [(row["name"], row["value"], row["words"]) for row in view.worst_case(meaning, private)]
    return (
        f'<section><h2>The chosen point</h2><p class="lead">{escape(view.in_words(chosen, meaning))}</p>'
        f'<dl class="facts">{facts}</dl>'
        f"<h3>What an attacker gains</h3>{_guesses(meaning.guesses)}"
        f"<h3>What a reader keeps</h3>{_kept(meaning.kept)}"
        f"<h3>At worst, beside the average</h3>{_table('', ('measure', '#value', 'in words'), worst)}"
        f'<h3>The mechanism</h3><div class="heats">{view.heat_maps(chosen, public, width=820)}</div></section>'
    )


def _guesses(guesses: Sequence[Guess]) -> str:
    rows = [
        (g.name, view.percent(g.before), view.percent(g.after), view.percent(g.original)) for g in guesses
    ]
    heads = ("private column", "#without the release", "#with the release", "#with the original data")
    return _table("How often the best guess of a private value is right.", heads, rows)


def _kept(kept: Sequence[Kept]) -> str:
    rows = [
        (k.name, view.percent(k.share), f"{to_bits(k.kept):.3f}", f"{to_bits(k.entropy):.3f}") for k in kept
    ]
    heads = ("public column", "#kept", "#bits kept", "#bits in all")
    return _table("Information kept about each public column.", heads, rows)


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; a head that starts with ``#`` marks a column of numbers."""
    number = [head.startswith("#") for head in heads]

    def cell(tag: str, text: str, j: int) -> str:
        return f"<{tag}{' class=num' if number[j] else ''}>{escape(text)}</{tag}>"

    top = "".join(cell("th", head.removeprefix("#"), j) for j, head in enumerate(heads))
    body = "".join(f"<tr>{''.join(cell('td', text, j) for j, text in enumerate(row))}</tr>" for row in rows)
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    inner = f"{said}<thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table class="full">{inner}</table></div>'


def _points_section(curve: Curve) -> str:
    problem = curve.problem
    rows = [
        (
            f"{to_bits(s.disclosure):.4f}",
            f"{100 * view.share(s.disclosure, problem.disclosure_ceiling, 1.0):.2f} %",
            f"{to_bits(s.leakage):.6f}",
            f"{100 * view.share(s.leakage, problem.leakage_ceiling, 0.0):.2f} %",
            f"{to_bits(s.lower_bound):.6f}",
            f"{to_bits(s.gap):.1e}" if s.gap > view.ZERO else "0",
            view.status_text(s.status),
        )
        for s in curve.solutions
    ]
    heads = ("#disclosure", "#of H(X)", "#leakage", "#of I(S;X)", "#proved at least", "#gap", "status")
    return f"<section><h2>Points</h2>{_table('In bits.', heads, rows)}</section>"


def _points(other: Curve | Line) -> list[tuple[float, float]]:
    """Return another method's points in nats, those that it did not reach left out."""
    found = ((s.disclosure, s.leakage) for s in other.solutions) if isinstance(other, Curve) else other
    return sorted((float(r), float(v)) for r, v in found if math.isfinite(r) and math.isfinite(v))


def _others_section(curve: Curve, others: Mapping[str, Curve | Line]) -> str:
    rows = []
    for name, other in others.items():
        inside = [(r, v) for r, v in _points(other) if 0.0 < r < curve.problem.disclosure_ceiling]
        excess = [v - curve.at(r).leakage for r, v in inside]
        worst = max(excess, default=0.0)
        mean = sum(excess) / len(excess) if excess else 0.0
        rows.append((name, str(len(inside)), f"{to_bits(mean):.2g}", f"{to_bits(worst):.2g}"))
    heads = ("method", "#points", "#mean excess, bits", "#largest excess, bits")
    return (
        "<section><h2>Other methods</h2>"
        f"{_table('Leakage above the curve of this report at the same disclosure.', heads, rows)}</section>"
    )


def _section(section: Section) -> str:
    words = "".join(f"<p>{escape(text)}</p>" for text in section.words)
    tables = "".join(_table(*table) for table in section.tables)
    return f"<section><h2>{escape(section.title)}</h2>{words}{tables}</section>"


def _verify_section(curve: Curve, report: Report) -> str:
    certified = any(s.certificate is not None for s in curve.solutions)
    how = (
        "A certificate is a list of dual prices and boxes; checking it is plain arithmetic and needs neither the "
        "solver nor an optimiser. The file <code>certificates.npz</code> that comes with this curve is checked "
        "against the table, or against the problem that it was counted into, with:"
        if certified
        else "The bounds of this curve are closed forms: they follow from the table alone. For certificates, trace "
        "it with the default solver and check their file against the table with:"
    )
    return (
        "<section><h2>How to verify</h2><p>Leakage and disclosure follow from the table and the channel by the "
        f"definition of mutual information. Each lower bound is proved for the whole curve. {how}</p>"
        f"<pre>privfunnel verify certificates.npz {escape(report.table or 'problem.json')}</pre></section>"
    )


def _limits_section() -> str:
    return (
        "<section><h2>What this is not</h2><p>Leakage is an average over people and released symbols, in the "
        "distribution of the counted table. It is not differential privacy: it promises nothing to a single person, "
        "about what an attacker knows from elsewhere, or when data of the same people is released again. Counts "
        "from few rows carry sampling error that no number above includes unless an audit says so.</p></section>"
    )


def _provenance_section(curve: Curve, report: Report) -> str:
    problem = curve.problem
    created = report.created or datetime.now(UTC)
    facts = [
        ("Source", report.source or "not named"),
        ("Rows", "not known" if problem.n is None else f"{problem.n:,.0f}"),
        ("Symbols", f"{problem.n_s} private, {problem.n_x} public"),
        ("H(X), I(S;X), nats", f"{problem.disclosure_ceiling:.9f}, {problem.leakage_ceiling:.9f}"),
        ("Fingerprint of p(s,x)", problem.fingerprint),
        ("Solver and seed", f"{curve.solver}, {curve.seed}"),
        ("Versions", ", ".join(_versions())),
        ("Made", created.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")),
    ]
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    again = f"<h3>To make it again</h3><pre>{escape(report.command)}</pre>" if report.command else ""
    return f'<section><h2>Provenance</h2><dl class="provenance">{listed}</dl>{again}</section>'


def _versions() -> list[str]:
    found = [f"privfunnel {__version__}", f"Python {platform.python_version()}"]
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return found

"""What the working processes of a tab do: read a table, count it, trace its curve, describe and export a point.

Each task is a function of a :class:`Workspace`. The front and the tracer of a tab are two
processes that share the session's folder: what one needs from the other lies there, written in one piece.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from privfunnel.app.explorer import (
    binning,
    describe,
    examples,
    exports,
    lookup,
    profile,
    reading,
    release_files,
    wording,
)
from privfunnel.app.explorer import guard_choice as guards
from privfunnel.app.explorer import task_choice as purpose
from privfunnel.app.explorer.curves import chosen, curve_of, places_of, trace
from privfunnel.app.explorer.news import tell
from privfunnel.app.explorer.workspace import Setting, Workspace
from privfunnel.audit.informed import informed
from privfunnel.data.engines import Cut, open_table
from privfunnel.data.tables import Counts, count
from privfunnel.errors import InvalidInputError, PrivFunnelWarning
from privfunnel.infra.storage import Document
from privfunnel.measures import nats_per
from privfunnel.model.question import Quantity
from privfunnel.neighbours import alternatives
from privfunnel.release.mechanism import Mechanism
from privfunnel.report import view

MOST_KNOWING = 6  # readers who know a column that the page lists


# --- table and roles ------------------------------------------------------------------------------------------------


def example(workspace: Workspace, name: str) -> Document:
    """Write a packaged example into the folder and inspect it."""
    path = examples.write(name, workspace.folder)
    return inspect(workspace, str(path), path.name, roles=dict(examples.EXAMPLES[name].roles))


def inspect(
    workspace: Workspace,
    path: str,
    name: str,
    roles: Document | None = None,
    read: Document | None = None,
) -> Document:
    """Look at a table: how it is read, columns, types, distinct values, histograms and the first rows."""
    tell(workspace, 0, 0, f"Opening {name}")
    asked, shown = reading.found_out(path, read or {})
    with open_table(path, reading.options(asked)) as table:
        tell(workspace, 0, 0, "Counting the rows")
        rows = table.n_rows()
        if rows == 0:
            raise InvalidInputError(f"{name} has no rows: choose a table with data")
        preview = profile.preview(table)
        as_text = asked.get("types", {})
        columns = profile.columns(table, lambda *news: tell(workspace, *news), as_text)
    workspace.drop("setting", "found", "curve", "band", "warnings")
    workspace.put("source", (path, name, asked))
    exports.clear(workspace.folder)
    suggested = {c["name"]: rule for c in columns if (rule := binning.suggested(c)) is not None}
    empty: dict[str, Any] = {"private": [], "public": [], "bins": suggested}
    return {
        "name": name,
        "rows": rows,
        "columns": columns,
        "preview": preview,
        "reading": shown,
        "roles": empty if roles is None else {**roles, "bins": {**suggested, **roles["bins"]}},
    }


def roles(
    workspace: Workspace, private: list[str], public: list[str], bins: Document, **rows: str
) -> Document:
    """Count the table by its roles and say how large the problem is.

    Args:
        workspace: Where the table is.
        private: Names of the private columns.
        public: Names of the public columns.
        bins: How columns are cut, see :mod:`.binning`.
        **rows: What is said of the table besides, ``ROWS``; empty texts where nothing is.
    """
    loaded: tuple[str, str, dict[str, Any]] | None = workspace.get("source")
    if loaded is None:
        raise InvalidInputError("no table is loaded: drop a file or pick an example")
    source, name, read = loaded
    rules = {column: binning.rule(column, asked) for column, asked in bins.items()}
    said: Document = {name: value for name, value in rows.items() if value}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrivFunnelWarning)
        counts = count(
            source,
            private=private,
            public=public,
            bins=rules,
            read=reading.options(read),
            **said,
        )
        problem = counts.problem()
    workspace.drop("found", "curve", "band")
    told = [str(w.message) for w in caught if issubclass(w.category, PrivFunnelWarning)]
    workspace.put("warnings", told)
    workspace.put(
        "setting", Setting(source, name, tuple(private), tuple(public), rules, counts, problem, read, **said)
    )
    return {
        "n_s": counts.n_s,
        "n_x": counts.n_x,
        "n": counts.n,
        "persons": counts.persons,
        "clusters": counts.clusters,
        "rows": counts.n_rows,
        "dropped": counts.dropped,
        "estimate": _estimate(counts),
        "warnings": _warnings(workspace),
        "edges": {
            column: [edge for edge in cut.edges if math.isfinite(edge)]
            for column, cut in counts.bins.items()
            if isinstance(cut, Cut) and not cut.part
        },
    }


def _warnings(workspace: Workspace) -> list[str]:
    """What the roles were warned of, in the page's words and unit."""
    return [wording.for_page(message, workspace.units) for message in workspace.get("warnings") or ()]


def _estimate(counts: Counts) -> str:
    size = counts.size
    if size.seconds < 1:
        return "A small problem: seconds for a curve."
    if not size.limited:
        return "A medium problem: from seconds to a few minutes for a curve."
    return (
        f"A large problem: about {size.memory / 2**20:.0f} MiB, many minutes for a curve, and proofs that stop at "
        "their time limit; coarser bins help."
    )


# --- points ---------------------------------------------------------------------------------------------------------


def units(workspace: Workspace, units: str) -> Document:
    """Choose the unit of the page's amounts of information; return the warnings in it."""
    nats_per(units)  # an unknown one is told
    workspace.put("units", units)
    return {"warnings": _warnings(workspace)}


def summary(workspace: Workspace) -> Document:
    """Return the finished curve as the page shows it."""
    setting, curve = workspace.setting(), curve_of(workspace)
    return view.curve_summary(curve, setting.public_axis, workspace.units, workspace.get("band"))


def point(
    workspace: Workspace,
    disclosure: float | None = None,
    leakage: float | None = None,
    width: int = 520,
    group: str = "",
    form: str = "records",
) -> Document:
    """Describe the curve at a disclosure, or a utility where it goes along one, or within a leakage budget; nats."""
    setting, curve = workspace.setting(), curve_of(workspace)
    solution = chosen(curve, disclosure, leakage)
    large = describe.too_large(solution)
    public = setting.public_axis
    mechanism = Mechanism.from_solution(setting.counts, solution)
    lists = release_files.lists_of(mechanism)
    found = exports.Exported(curve, solution, places_of(workspace), keeping=workspace.keeping)
    return {
        **view.point(
            solution,
            setting.private_axis,
            public,
            width=0 if large else width,
            group=group,
            units=workspace.units,
        ),
        "at": view.place(curve, solution),
        "at_share": view.share(view.place(curve, solution), view.ceiling(curve), 1.0),
        **purpose.described(solution),
        "people": [
            *guards.words(solution, workspace.units),
            *describe.people(solution, setting.counts.s_alphabet, setting.counts.n),
            *describe.beyond(solution, setting.counts, workspace.units, workspace.get("band")),
        ],
        "classes": describe.classes(solution, public) if large else [],
        **({"heat": lookup.picture(solution, public, width=2 * width)} if large else {}),
        "names": list(public.names),
        "samples": describe.samples(mechanism, public, lists),
        "told_by_decoys": [] if lists is None else release_files.told_by_decoys(mechanism),
        **exports.offer(setting, found, release_files.files(lists), units=workspace.units, form=form),
    }


def search(workspace: Workspace, disclosure: float, text: str) -> Document:
    """Find combinations of public values by what occurs in them; see :func:`.lookup.search`."""
    setting = workspace.setting()
    solution = chosen(curve_of(workspace), disclosure, None)
    lists = release_files.lists_of(Mechanism.from_solution(setting.counts, solution))
    return lookup.search(solution, (setting.private_axis, setting.public_axis), lists, text)


def beside(workspace: Workspace, disclosure: float) -> Document:
    """What stands beside a point, and takes longer to find than the point itself.

    Returns:
        What dropping columns and coarser categories keep where they leak no more (``others``), beside the point's own
        ``share`` of H(X); of a release for a ``task`` what they leak where they are as good for it, beside its own
        ``leakage``. And what readers learn who know public columns already (``known``), in nats.
    """
    setting = workspace.setting()
    solution = chosen(curve_of(workspace), disclosure, None)
    counts, problem = setting.counts, setting.problem
    if solution.question.axis is Quantity.UTILITY:
        others = purpose.instead(solution, counts)
    else:
        # What is compared is what a reader learns who knows nothing, by mutual information.
        leaked = problem.evaluate(solution.channel).leakage
        found = alternatives.instead(counts.x_alphabet, counts.table() / counts.n, leaked)
        others = [each.to_dict() for each in found]
    knowing = informed(counts.x_alphabet, problem.p_sx, solution.channel)
    one = [each for each in knowing if each.columns in setting.public]
    more = [each for each in knowing if each.columns not in setting.public]
    return {
        "share": describe.share_kept(solution),
        "columns": len(setting.public),
        "task": setting.task,
        "leakage": problem.evaluate(solution.channel).leakage,
        "leakage_ceiling": problem.leakage_ceiling,
        "others": others,
        "known": [
            {
                "columns": "nothing",
                "leakage": problem.evaluate(solution.channel).leakage,
                "ceiling": problem.leakage_ceiling,
            },
            *(vars(each) for each in (*one[:MOST_KNOWING], *more[:1])),
        ],
    }


def export(workspace: Workspace, name: str, disclosure: float, form: str = "records") -> str:
    """Write one of the files of a chosen point into the folder and return its path; rows are released in a form."""
    setting, curve = workspace.setting(), curve_of(workspace)
    solution, band = chosen(curve, disclosure, None), workspace.get("band")
    found = exports.Exported(curve, solution, places_of(workspace), band, form, workspace.keeping)
    return str(exports.write(name, workspace.folder, setting, found, lambda *news: tell(workspace, *news)))


def audit(workspace: Workspace, disclosure: float, form: str) -> Document:
    """Audit what a chosen point is released as, in a form: the very file that is downloaded."""
    setting = workspace.setting()
    solution = chosen(curve_of(workspace), disclosure, None)
    found = exports.audited(
        workspace.folder, setting, solution, form, workspace.keeping, lambda *news: tell(workspace, *news)
    )
    return {**found, "words": [wording.for_page(said) for said in found["words"]]}


def ledger(workspace: Workspace, disclosure: float) -> Document:
    """What the ledger says that releases of the page are entered in, and whether this point would be refused."""
    setting = workspace.setting()
    solution = chosen(curve_of(workspace), disclosure, None)
    found = exports.account(workspace.folder, setting, solution, workspace.keeping, workspace.units)
    return {**found, "refused": wording.for_page(found.get("refused", ""), workspace.units)}


TASKS: dict[str, Callable[..., Any]] = {
    "example": example,
    "inspect": inspect,
    "roles": roles,
    "trace": trace,
    "units": units,
    "summary": summary,
    "point": point,
    "export": export,
    "search": search,
    "audit": audit,
    "beside": beside,
    "ledger": ledger,
}

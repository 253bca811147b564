"""What the page shows of a large mechanism and of single rows: classes instead of heat maps, before and after."""

from __future__ import annotations

from typing import Any

import numpy as np

from privfunnel import measures
from privfunnel.app.explorer.release_files import Lists
from privfunnel.audit import PopulationBand
from privfunnel.audit.cross_fit import proved_of_every_channel, repeatable, unasked_splits
from privfunnel.data.engines import Alphabet
from privfunnel.data.population.views import NOTHING_CLAIMED, view_of
from privfunnel.data.tables import Counts
from privfunnel.infra.storage import Document
from privfunnel.measures import Channel
from privfunnel.model.channels import is_sparse
from privfunnel.model.equal_symbols import lumping_of
from privfunnel.release.guesses import exposures
from privfunnel.release.mechanism import Mechanism, symbol_names
from privfunnel.report import view
from privfunnel.report.axes import Axis
from privfunnel.solving.solution import Solution

#: Cells above which two heat maps are no picture any more.
MOST_CELLS = 40_000
#: What is sent of the classes, of the members of each and of the symbols it is released as.
MOST_CLASSES, MOST_MEMBERS, MOST_SYMBOLS = 50, 3, 3
SAMPLES = 6
MOST_PEOPLE = 4


def share_kept(solution: Solution) -> float:
    """Share of H(X) that a solution discloses."""
    return view.share(solution.disclosure, solution.problem.disclosure_ceiling, 1.0)


def people(solution: Solution, private: Alphabet, rows: int) -> list[str]:
    """Say whom the release exposes most, a sentence each for the private values that become noticeably more likely."""
    found = exposures(private, solution.problem.p_sx @ solution.channel, rows)
    return [each.words for each in found if each.notable][:MOST_PEOPLE]


def beyond(solution: Solution, counts: Counts, units: str, found: PopulationBand | None = None) -> list[str]:
    """Say whom the numbers of a point are about where the rows are few, and what they say about people like them.

    What is proved is for every mechanism at once, since this one was designed on all rows; the audit tries again on
    parts of them, by the rule of :mod:`privfunnel.audit.cross_fit`, and where it claims nothing the page does not
    either.

    Args:
        solution: The point.
        counts: The rows it was designed on.
        units: What amounts are told in, ``"bits"`` or ``"nats"``.
        found: What is estimated for people like them, along the curve.
    """
    problem, unit = solution.problem, measures.nats_per(units)
    pieces = counts.n if counts.pieces is None else counts.pieces
    if solution.channel.shape[1] == 1:
        return []  # nothing is released, about nobody
    if view_of(None, (problem.n_s, problem.n_x), pieces, problem.leakage_ceiling) == "register":
        return []
    whose = "rows" if counts.pieces is None else "persons" if counts.clusters is None else "clusters"
    about = f"All this is about the {pieces:,.0f} {whose} of the table, which are few for its cells."
    proved = None
    if not counts.unequal and not is_sparse(solution.channel):
        most = proved_of_every_channel(counts, solution.channel)
        if most < problem.leakage_ceiling:
            told = f"{most / unit:.3f} {units}"
            proved = f"with 95 % confidence at most {told}, if its columns have no other values there"
    if found is not None:
        leaks = f"leaks an estimated {found.at(solution.disclosure)[0] / unit:.3f} {units};"
        more = proved or "the audit says what is proved, or that so few prove nothing"
    elif repeatable(solution.solver) and unasked_splits(pieces, counts.size.seconds):
        leaks, more = "leaks more:", proved or "the audit estimates how much"
    elif proved is not None:
        leaks, more = "leaks more:", proved
    else:
        return [f"{about} For people like these the release leaks more. {NOTHING_CLAIMED}."]
    return [f"{about} For people like these the release {leaks} {more}."]


def too_large(solution: Solution) -> bool:
    """Whether the mechanism is better told by its classes than drawn."""
    return len(solution.problem.p_x) * int(np.count_nonzero(solution.p_y)) > MOST_CELLS


def classes(solution: Solution, public: Axis) -> list[Document]:
    """Describe the classes of public symbols that tell the same of the private ones, the most frequent first.

    Returns:
        For each class: ``members``, how many there are in all (``size``), the share of rows, and the symbols that it is
        released as most often with their probabilities.
    """
    lumping = lumping_of(solution.problem)
    p_x = solution.problem.p_x
    names = symbol_names(solution.channel.shape[1])
    channel: Channel = solution.channel.tocsr() if is_sparse(solution.channel) else solution.channel
    share = np.bincount(lumping.classes, weights=p_x, minlength=lumping.n_classes)
    found = []
    for c in np.argsort(-share, kind="stable")[:MOST_CLASSES]:
        members = np.flatnonzero(lumping.classes == c)
        members = members[np.argsort(-p_x[members], kind="stable")]
        released = p_x[members] @ channel[members] / max(float(share[c]), np.finfo(float).tiny)
        most = [int(y) for y in np.argsort(-released, kind="stable")[:MOST_SYMBOLS] if released[y] > 0.0]
        found.append(
            {
                "members": [", ".join(public.values[int(x)]) for x in members[:MOST_MEMBERS]],
                "size": len(members),
                "share": float(share[c]),
                "released": [{"name": names[y], "p": float(released[y])} for y in most],
            }
        )
    return found


def _dense(rows: object) -> Any:
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)


def samples(mechanism: Mechanism, public: Axis, lists: Lists | None) -> list[Document]:
    """Return some public values as they are and as a release could write them: a record, a symbol, and candidates.

    They are drawn for the eye, the same each time, and belong to no release: x from p(x), y from p(y|x), and the
    written values from p(x|y). Candidates are those of ``lists``, where there are any.
    """
    names = symbol_names(mechanism.n_y)
    random = np.random.default_rng(0)
    found = []
    for x in random.choice(len(mechanism.p_x), size=SAMPLES, p=mechanism.p_x / mechanism.p_x.sum()):
        row = _dense(mechanism.channel[[x]])[0]
        y = int(random.choice(len(row), p=row / row.sum()))
        column = _dense(mechanism.p_x_given_y[:, [y]])[:, 0]
        after = int(random.choice(len(column), p=column / column.sum()))
        found.append(
            {
                "before": list(public.values[int(x)]),
                "after": list(public.values[after]),
                "symbol": names[y],
                "candidates": [] if lists is None else lists.of(y),
            }
        )
    return found

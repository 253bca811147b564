"""A mechanism with many symbols: a picture of its classes, and what becomes of combinations that one looks for."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from privfunnel.app.explorer.release_files import Lists
from privfunnel.data.engines import Alphabet, Column
from privfunnel.data.engines.categories import Codes
from privfunnel.infra.storage import Document
from privfunnel.measures import Array, Channel
from privfunnel.model.equal_symbols import lumping_of
from privfunnel.release.mechanism import symbol_names
from privfunnel.report.axes import Axis
from privfunnel.report.heat import Heat, draw
from privfunnel.solving.solution import Solution

#: Rows and columns of the picture, the one that sums up the rest included.
MOST_DRAWN = 40
#: Combinations that a search lists, and the symbols that each of them may become.
MOST_FOUND, MOST_SYMBOLS = 10, 4
#: Digits of p(class|y) by which released symbols say the same of the classes.
DIGITS = 9


def grouped(channel: Channel, p_x: Array, classes: Codes) -> tuple[Array, Codes]:
    """Join released symbols that say the same of the classes.

    Args:
        channel: p(y|x), shape (M, N), dense or sparse.
        p_x: p(x), shape (M,).
        classes: The class of each public symbol, shape (M,), from 0 on.

    Returns:
        p(class, group), shape (C, G), the most frequent group first; and the number of symbols in each, shape (G,).
    """
    n_x, n_y = channel.shape
    among = sparse.csr_array((p_x, (classes, np.arange(n_x))), shape=(int(classes.max()) + 1, n_x))
    joint = sparse.csc_array(among @ sparse.csr_array(channel))
    joint.sort_indices()
    p_y = np.asarray(joint.sum(axis=0)).ravel()
    group = np.full(n_y, -1)
    keys: dict[tuple[bytes, bytes], int] = {}
    for y in np.flatnonzero(p_y > 0.0).tolist():
        held = slice(joint.indptr[y], joint.indptr[y + 1])
        said = np.round(joint.data[held] / p_y[y], DIGITS)
        group[y] = keys.setdefault((joint.indices[held].tobytes(), said.tobytes()), len(keys))
    used = np.flatnonzero(group >= 0)
    found = np.zeros((joint.shape[0], len(keys)))
    np.add.at(found, (joint.indices, np.repeat(group, np.diff(joint.indptr))), joint.data)
    order = np.argsort(-found.sum(axis=0), kind="stable")
    return found[:, order], np.bincount(group[used], minlength=len(keys))[order]


def picture(solution: Solution, public: Axis, *, width: int) -> str:
    """Draw p(group|class): the most frequent classes and groups of released symbols, the rest of both summed up."""
    p_x, classes = solution.problem.p_x, lumping_of(solution.problem).classes
    table, symbols = grouped(solution.channel, p_x, classes)
    order = np.argsort(-table.sum(axis=1), kind="stable")
    size = np.bincount(classes)
    heaviest = np.lexsort((-p_x, classes))[np.concatenate([[0], np.cumsum(size)[:-1]])]
    names = [
        f"{place + 1}: {', '.join(public.values[int(heaviest[c])])}"
        + (f" and {size[c] - 1:,} more" if size[c] > 1 else "")
        for place, c in enumerate(order[: MOST_DRAWN - 1 if len(order) > MOST_DRAWN else None].tolist())
    ]
    columns = [f"{place + 1}: {n:,} symbols" if n > 1 else f"{place + 1}" for place, n in enumerate(symbols)]
    if len(order) > MOST_DRAWN:
        names.append(f"{len(order) - len(names):,} other classes")
    if len(columns) > MOST_DRAWN:
        rest = int(symbols[MOST_DRAWN - 1 :].sum())
        columns = [*columns[: MOST_DRAWN - 1], f"others: {rest:,} symbols"]
    cells = _summed(_summed(table[order].T, len(columns)).T, len(names))
    cells /= cells.sum(axis=1, keepdims=True)
    alphabet = Alphabet((Column("class", "text", tuple(names)),), np.arange(len(names))[:, None])
    axis = Axis(alphabet, (tuple(names),))
    return draw(Heat("What becomes of each class", cells, axis, tuple(columns)), width=width)


def _summed(table: Array, rows: int) -> Array:
    """The table with its last rows added up, so that so many are left."""
    return np.concatenate([table[: rows - 1], table[rows - 1 :].sum(axis=0, keepdims=True)])


def search(solution: Solution, axes: tuple[Axis, Axis], lists: Lists | None, text: str) -> Document:
    """Find combinations of public values, and say what the table tells of them and what they may become.

    Args:
        solution: The point.
        axes: The private and the public symbols.
        lists: The candidates of the released symbols, where they are few.
        text: Words that all have to occur, each in one of a combination's values; ``column=word`` in that column.

    Returns:
        How many were found (``count``), and the most frequent of them: ``values``, the share of rows, the class and how
        many combinations it has, p(s|x), and the symbols with p(y|x), the likeliest first, with their candidates.
    """
    private, public = axes
    problem, p_x = solution.problem, solution.problem.p_x
    hits = np.flatnonzero(_matching(public, text))
    hits = hits[np.argsort(-p_x[hits], kind="stable")]
    classes = lumping_of(problem).classes
    share = np.bincount(classes, weights=p_x)
    rank = np.empty(len(share), dtype=np.int64)
    rank[np.argsort(-share, kind="stable")] = np.arange(len(share))
    size, names = np.bincount(classes), symbol_names(solution.channel.shape[1])
    channel: Channel = (
        solution.channel if isinstance(solution.channel, np.ndarray) else solution.channel.tocsr()
    )
    found = []
    for x in hits[:MOST_FOUND].tolist():
        row = channel[[x]]
        row = np.asarray(row.toarray() if hasattr(row, "toarray") else row)[0]
        likely = [int(y) for y in np.argsort(-row, kind="stable")[:MOST_SYMBOLS] if row[y] > 0.0]
        p_s = problem.p_sx[:, x] / p_x[x]
        found.append(
            {
                "values": list(public.values[x]),
                "share": float(p_x[x]),
                "class": int(rank[classes[x]]) + 1,
                "members": int(size[classes[x]]),
                "private": [
                    {"name": ", ".join(private.values[int(s)]), "p": float(p_s[s])}
                    for s in np.argsort(-p_s, kind="stable")[:MOST_SYMBOLS]
                ],
                "released": [
                    {
                        "name": names[y],
                        "p": float(row[y]),
                        "candidates": [] if lists is None else lists.of(y),
                    }
                    for y in likely
                ],
                "symbols": int(np.count_nonzero(row)),
            }
        )
    return {"count": len(hits), "total": len(public), "found": found, "names": list(public.names)}


def _matching(public: Axis, text: str) -> Any:
    """Which symbols have all words of a text, shape (M,)."""
    codes = public.alphabet.codes
    lowered = [tuple(each.lower() for each in texts) for texts in public.texts]
    right = np.ones(len(codes), dtype=bool)
    for word in _words(text):
        column, sign, value = word.partition("=")
        places = [a for a, name in enumerate(public.names) if sign and name.lower() == column.strip()]
        wanted = value.strip() if places else word
        hit = np.zeros(len(codes), dtype=bool)
        for a in places or range(len(lowered)):
            hit |= np.array([wanted in each for each in lowered[a]])[codes[:, a]]
        right &= hit
    return right


def _words(text: str) -> list[str]:
    """What is looked for: parts between commas where there are any, else words."""
    parts = text.lower().split(",") if "," in text else text.lower().split()
    return [part.strip() for part in parts if part.strip()]

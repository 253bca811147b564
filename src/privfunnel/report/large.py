"""A channel too large to be drawn, in numbers that may be published: its most frequent rows, and a search."""

from __future__ import annotations

import json
from html import escape
from typing import NamedTuple

import numpy as np
from scipy import sparse

from privfunnel.data.engines import Alphabet, Column
from privfunnel.measures import Array
from privfunnel.report import heat, parts
from privfunnel.report.axes import Axis
from privfunnel.report.described import Described, published_axis
from privfunnel.report.rounding import Rounding

#: Rows of the picture; beside the same columns two more sum up the rest.
MOST_DRAWN = 38
#: Combinations that can be looked for, the most frequent ones: some hundred bytes each.
MOST_LISTED = 2_000


class Listed(NamedTuple):
    """The most frequent combinations of public values that enough rows have, as they are published.

    Attributes:
        values: A text for each public column, by combination; G of them, at most :data:`MOST_LISTED`.
        share: Share of the rows, shape (G,).
        written: p(written as | combination), shape (G, G + 1); the last column is all that is not listed.
        enough: How many combinations enough rows have.
    """

    values: tuple[tuple[str, ...], ...]
    share: Array
    written: sparse.csr_array
    enough: int


def listed(release: Described, say: Rounding) -> Listed:
    """Find what may be listed; what is written alike is one, and the order is that of rounded shares."""
    told = np.flatnonzero(say.named(release.public.alphabet, release.p_x))
    texts = published_axis(release.public, release.p_x, say).take(told.tolist()).values
    share: dict[tuple[str, ...], float] = {}
    for text, p in zip(texts, release.p_x[told].tolist(), strict=True):
        share[text] = share.get(text, 0.0) + p
    # An order by exact shares would say which of two rounded ones is the larger.
    names = sorted(share, key=lambda each: (-say.share(share[each]), each))[:MOST_LISTED]
    place = {name: i for i, name in enumerate(names)}
    of = np.full(len(release.p_x), len(names))
    of[told] = [place.get(text, len(names)) for text in texts]
    into = sparse.csr_array(
        (release.p_x, (of, np.arange(len(of)))), shape=(len(names) + 1, len(of))
    ) @ sparse.csr_array(release.channel)  # p(group, y)
    if release.outputs is not None:
        places = (np.arange(len(release.outputs)), of[release.outputs])
        back = sparse.csr_array(
            (np.ones(len(release.outputs)), places), shape=(len(release.outputs), len(names) + 1)
        )
    else:
        p_y = np.asarray(into.sum(axis=0)).ravel()
        back = into.T.multiply(1.0 / np.where(p_y > 0.0, p_y, 1.0)[:, None])
    p_g = np.array([share[name] for name in names])
    written = sparse.csr_array(into[: len(names)].multiply(1.0 / p_g[:, None])) @ sparse.csr_array(back)
    return Listed(tuple(names), p_g, sparse.csr_array(written), len(share))


def section(release: Described, say: Rounding) -> str:
    """Return a picture of what rows are written as, and a list in which values can be looked for."""
    found = listed(release, say)
    n_x, n_y = release.channel.shape
    few = f"Combinations that fewer than {say.threshold} rows have are not listed."
    words = [f"Its {n_x:,} × {n_y:,} probabilities are too many to be drawn. {few}"]
    if not found.values:
        return parts.paragraphs(words)
    if found.enough > len(found.values):
        words.append(
            f"Of {say.count(found.enough)} others the {len(found.values):,} most frequent can be looked for here; the "
            "page, privfunnel explore, finds them all."
        )
    names = release.public.names
    return f"{parts.paragraphs(words)}{_picture(found, names, say)}{_search(found, names, say)}"


def _picture(found: Listed, names: tuple[str, ...], say: Rounding) -> str:
    """Draw what the most frequent combinations are written as; the rest is summed up at the right."""
    n = min(MOST_DRAWN, len(found.values))
    rows = found.written[:n].toarray()
    rest, rare = rows[:, n:-1].sum(axis=1, keepdims=True), rows[:, -1:]
    cells = np.concatenate([rows[:, :n], rest, rare], axis=1)
    for row, share in zip(cells, found.share[:n], strict=True):
        own = say.of(float(share))
        row[:] = [own.share(float(p)) for p in row]
    labels = tuple(f"{i + 1}: {', '.join(each)}" for i, each in enumerate(found.values[:n]))
    axis = Axis(Alphabet((Column(", ".join(names), "text", labels),), np.arange(n)[:, None]), (labels,))
    columns = (*(str(i + 1) for i in range(n)), "another", "not listed")
    drawn = heat.draw(heat.Heat("what a row is written as", cells, axis, columns), width=820)
    return f'<div class="heats">{drawn}</div>'


def _search(found: Listed, names: tuple[str, ...], say: Rounding) -> str:
    """The list of combinations, the first of them as a table; ``chart.js`` looks for others."""
    rows = [_told(found, i, say.of(float(p)), say) for i, p in enumerate(found.share)]
    heads = (
        f"a row with ({', '.join(names)})",
        "#rows",
        "#written as it is",
        "most often otherwise written as",
    )
    caption = (
        "Where records are released; among the candidates of decoys, the same shares are weights, on average."
    )
    table = parts.table(
        # Combinations that are listed before anything is looked for.
        caption,
        heads,
        [(", ".join(found.values[i]), *row) for i, row in enumerate(rows[:8])],
    )
    levels = [list(dict.fromkeys(each[a] for each in found.values)) for a in range(len(names))]
    place = [{text: code for code, text in enumerate(texts)} for texts in levels]
    codes = [[place[a][text] for a, text in enumerate(each)] for each in found.values]
    data = {"names": names, "levels": levels, "codes": codes, "rows": rows}
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    hint = escape(", ".join(found.values[0][:2]))
    return (
        f'<div class="lookup"><p class="needs-script" hidden><label>Look for values <input type="search" '
        f'placeholder="e.g. {hint}" autocomplete="off"></label> <span class="small quiet" role="status"></span></p>'
        f'{table}<script type="application/json">{packed}</script></div>'
    )


def _told(found: Listed, i: int, own: Rounding, say: Rounding) -> tuple[str, str, str]:
    """Share of the rows, how often they are written as they are, and what they are written as otherwise."""
    held = slice(found.written.indptr[i], found.written.indptr[i + 1])
    chances = dict(zip(found.written.indices[held].tolist(), found.written.data[held].tolist(), strict=True))
    kept = chances.pop(i, 0.0)
    chances.pop(len(found.values), None)  # what is not listed has no name
    # By rounded chances, as above.
    best = min(chances, key=lambda g: (-own.share(chances[g]), g), default=None)
    other = ""
    if best is not None and own.share(chances[best]) >= own.step:
        other = f"{', '.join(found.values[best])} ({own.percent(chances[best])})"
    return say.percent(float(found.share[i])), own.percent(kept), other

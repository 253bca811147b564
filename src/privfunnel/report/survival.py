"""What survives of the public columns, in numbers that may be published."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privfunnel.audit.models import Model
from privfunnel.data.engines.cutting import nice_above
from privfunnel.release.fidelity import Fidelity, Numbers, figures
from privfunnel.report import parts
from privfunnel.report.described import Described, published_axis
from privfunnel.report.rounding import Rounding

#: Rows before and after that are shown.
EXAMPLES = 5
#: Finest step of a change, in standard deviations of the released numbers, and the largest that is told.
FINEST_CHANGE, LARGEST_CHANGE = 0.05, 1.0


def examples(release: Described, say: Rounding) -> str:
    """Return what becomes of the most frequent combinations of public values; nothing for a channel too large to draw.

    A row of the table itself is never shown: these are combinations that enough rows have, and what the channel makes
    of them.
    """
    if not release.drawable:
        return ""
    public = published_axis(release.public, release.p_x, say)
    listed = say.named(release.public.alphabet, release.p_x)
    shown = [
        ", ".join(f"{n} = {v}" for n, v in zip(public.names, values, strict=True)) for values in public.values
    ]
    names = sorted({text for text, ok in zip(shown, listed, strict=True) if ok})
    place = {name: i for i, name in enumerate(names)}
    # Column by column of "after"; combinations of few rows are one of them, without a name.
    of = np.array([place[text] if ok else len(names) for text, ok in zip(shown, listed, strict=True)])
    after = np.zeros((len(shown), len(names) + 1))
    np.add.at(after.T, of, release.written.T)
    before = np.zeros(len(names) + 1)
    np.add.at(before, of, release.p_x)
    rows = []
    # In the order of rounded shares: an order by exact ones would say which is the larger.
    for name in sorted(names, key=lambda each: (-say.share(before[place[each]]), each))[:EXAMPLES]:
        i = place[name]
        mine = (of == i) * release.p_x
        chances, own = mine @ after / mine.sum(), say.of(float(mine.sum()))
        others = np.array([own.share(chance) for chance in chances[:-1]])
        others[i] = -1.0
        best = int(others.argmax()) if len(names) > 1 else i
        other = "" if best == i or others[best] < own.step else f"{names[best]} ({own.percent(others[best])})"
        rows.append((name, own.percent(chances[i]), other))
    if not rows:
        return ""
    heads = ("a row with", "#is written as it is", "most often otherwise written as")
    caption = "What becomes of the most frequent rows, where records are released."
    return f"<h3>Rows before and after</h3>{parts.table(caption, heads, rows)}"


def survival_section(found: Fidelity, say: Rounding, models: tuple[Model, ...] = ()) -> parts.Section:
    """Return what a release of records leaves of each column: changes rounded, released numbers as they are."""
    rows = []
    for each in found.columns:
        numbers = ("", "", "")
        if each.before is not None and each.after is not None:
            mean, sd = each.before.inner or (each.before.mean, each.before.sd)
            numbers = (
                f"{figures(each.after.mean, 3)} ({_change(mean, each.after.mean, each.after, say)})",
                f"{figures(each.after.sd, 3)} ({_change(sd, each.after.sd, each.after, say)})",
                " ".join(figures(q, 3) for q in each.after.quartiles)
                + f" ({_largest(each.before, each.after, say)})",
            )
        rows.append((each.name, say.percent(each.unchanged), say.percent(each.margin, "up"), *numbers))
    words = []
    if found.pair is not None:
        words.append(
            f"Of all pairs of columns, the cross-tabulation of {found.pair[0]} and {found.pair[1]} changes most: no "
            f"share in it by more than {say.percent(found.pair_margin, 'up')} of the rows."
        )
    heads = ("column", "#values unchanged", "#largest change of a share, at most", "#mean", "#standard deviation",
             "#quartiles")  # fmt: skip
    caption = "The released columns, and in brackets by how much they differ from the table, in standard deviations."
    tables: list[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = [(caption, heads, rows)]
    if models:
        right = [
            (m.column, *(say.percent(share) for share in (m.prior, m.original, m.release))) for m in models
        ]
        trained = ("predicted column", "#most frequent value", "#model of the table", "#model of the release")
        caption = (
            "Right answers of models of one public column from the others, on rows that they have not seen."
        )
        tables.append((caption, trained, right))
    return parts.Section(title="What survives", words=words, tables=tables)


def _largest(before: Numbers, after: Numbers, say: Rounding) -> str:
    """The change of the quartile that changes most."""
    pairs = zip(before.quartiles, after.quartiles, strict=True)
    old, new = max(pairs, key=lambda pair: abs(pair[1] - pair[0]))
    return _change(old, new, after, say)


def _change(old: float, new: float, after: Numbers, say: Rounding) -> str:
    """By how much a number has changed, in released standard deviations: no finer than a few rows could change it."""
    if after.sd <= 0.0:
        return "changed" if old != new else "unchanged"
    step = max(FINEST_CHANGE, nice_above(say.threshold / say.rows) if say.rows else FINEST_CHANGE)
    moved = (new - old) / after.sd
    if step >= LARGEST_CHANGE:
        return "change not told"
    if abs(moved) > LARGEST_CHANGE:
        return f"{'+' if moved > 0 else '−'} more than {LARGEST_CHANGE:g}"
    near = round(moved / step) * step
    return "about the same" if near == 0.0 else f"{'+' if near > 0 else '−'}{abs(near):.2g}"

"""What a release is good for, in numbers that may be published: models of the task beside models of private columns."""

from __future__ import annotations

from collections.abc import Sequence

from privfunnel.audit import Interval, Usefulness
from privfunnel.report.parts import Section
from privfunnel.report.rounding import Rounding


def usefulness_section(found: Sequence[Usefulness], private: Sequence[str], say: Rounding) -> Section | None:
    """Return how well models do that are trained on the release; None where few rows are behind them, or none.

    Args:
        found: What was measured, for tasks and for private columns.
        private: The private columns.
        say: How numbers are told.
    """
    if not found or not say.detailed:
        return None
    rows = [
        (
            each.column,
            "private: an attacker's" if each.column in private else "the task's",
            say.percent(each.prior),
            _interval(each.release, say),
            _interval(each.original, say),
            _ranked(each.auc, each.auc_interval, say),
            _ranked(each.auc_original, each.auc_original_interval, say),
        )
        for each in found
    ]
    heads = ("predicted column", "model", "#most frequent value", "#trained on the release",
             "#on the public columns", "#AUC, release", "#AUC, public columns")  # fmt: skip
    caption = (
        "Right answers and AUC on rows that the model has not seen, with 95 % intervals; an AUC of 0.5 is chance, and "
        "so, in rows that are finite, is one below it."
    )
    words = [
        "For each row a symbol was drawn by the mechanism. A good release leaves a model of the task close to one of "
        "the public columns, and a model of a private column close to its most frequent value."
    ]
    return Section(title="What it is good for", words=words, tables=[(caption, heads, rows)])


def _ranked(auc: float, ends: Interval | None, say: Rounding) -> str:
    """An AUC, with its interval where there is one."""
    value = f"{say.share(auc):.3g}"
    return value if ends is None else f"{value} ({say.share(ends.low):.3g} to {say.share(ends.high):.3g})"


def _interval(share: Interval, say: Rounding) -> str:
    return f"{say.percent(share.value)} ({say.percent(share.low, 'down')} to {say.percent(share.high, 'up')})"

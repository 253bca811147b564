"""An audit as a section of a report."""

from __future__ import annotations

import math

from privfunnel.audit import Audit, Information, Interval
from privfunnel.measures import to_bits
from privfunnel.report.html import Section

SYMBOLS = 10  # the most telling ones are listed


def audit_section(audit: Audit) -> Section:
    """Return what an audit found: its words, and a table each for private attributes and telling symbols."""
    attributes = [
        (
            attribute.name,
            f"{to_bits(attribute.leakage.plug_in):.4f}",
            _ends(attribute.leakage),
            _percent(attribute.before),
            _percent(attribute.after),
            "" if attribute.original is None else _percent(attribute.original),
            _number(to_bits(attribute.maximal_leakage.value)),
            _number(attribute.local_information_privacy.value),
        )
        for attribute in audit.attributes
    ]
    symbols = [
        (s.label, f"{100 * s.share:.2f} %", f"{to_bits(s.information.value):.4f}", f"× {s.lift:.3g}", s.about)
        for s in audit.symbols[:SYMBOLS]
    ]
    exposed = [
        (
            each.value,
            f"{100 * each.before:.1f} %",
            f"{100 * each.after:.1f} % or more",
            f"{each.rows:,} of {each.of:,}" if each.of else f"{100 * each.share:.2f} %",
            f"× {each.lift:.3g}",
            f"{each.auc:.3f}",
        )
        for each in audit.exposures[:SYMBOLS]
    ]
    heads = ("private", "#leakage, bits", "#95 % interval for these rows", "#guess before", "#after", "#from original",
             "#maximal leakage, bits", "#ε, nats")  # fmt: skip
    return Section(
        title="Audit",
        words=[*audit.words(), *audit.limits],
        tables=[
            ("Each private column, and all of them together.", heads, attributes),
            (
                "The people whom the release exposes most, by private value.",
                (
                    "value",
                    "#chance",
                    "#of the exposed",
                    "#exposed",
                    "#largest lift",
                    "#AUC of the best attacker",
                ),
                exposed,
            ),
            (
                "The released symbols that tell most.",
                ("symbol", "#released", "#tells, bits", "#largest lift", "of"),
                symbols,
            ),
        ],
    )


def _ends(leakage: Information) -> str:
    """The interval of an estimate; a number that is exact for its rows has none."""
    if leakage.low == leakage.high:
        return "exact"
    return f"{to_bits(leakage.low):.4f} – {to_bits(leakage.high):.4f}"


def _percent(share: Interval) -> str:
    if share.low == share.high:
        return f"{100 * share.value:.1f} %"
    return f"{100 * share.value:.1f} % ({100 * share.low:.1f} – {100 * share.high:.1f})"


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.4f}"

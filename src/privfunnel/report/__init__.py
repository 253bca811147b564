"""Reports: a curve, the point chosen on it, and how to check both, as one HTML file.

>>> import privfunnel as pf
>>> curve = pf.trace(pf.instances.load("synthetic-uniform"), solver="aem", points=5)
>>> pf.report.render(curve).startswith("<!DOCTYPE html>")
True
"""

from __future__ import annotations

from privfunnel.release.guesses import Guess
from privfunnel.report.axes import Axis
from privfunnel.report.chart import Mark, Picture, Series, figure
from privfunnel.report.from_audit import audit_section
from privfunnel.report.html import FORMS, Report, render, write
from privfunnel.report.meaning import Kept, Meaning, explain
from privfunnel.report.parts import Section

__all__ = [
    "FORMS", "Axis", "Guess", "Kept", "Mark", "Meaning", "Picture", "Report", "Section", "Series", "audit_section",
    "explain", "figure", "render", "write",
]  # fmt: skip

"""The page that says, claim by claim, what was found."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import numpy as np

from privfunnel._version import __version__
from privfunnel.measures import Array
from privfunnel.model.question import FEASIBILITY
from privfunnel.studies.reproduce.figures import FIGURES
from privfunnel.studies.reproduce.panels import AEM, DRS, DRS_REPAIRED, DRS_TUNED, TUNED, PanelResult, Plan

#: A method "reaches" the end of the curve when a run of it comes this close to (H(X), I(S;X)), in nats.
REACHED = 1e-3
#: Differences in leakage below this are called equal, in nats.
EQUAL = 1e-4
#: "Almost perfect privacy": leakage of at most this share of I(S;X).
ALMOST = 0.01

#: "A wide range" of disclosures: at least this share of H(X).
WIDE = 0.25

ALL_DRS = (DRS, DRS_TUNED, DRS_REPAIRED)

Row = Sequence[str]


def document(results: list[PanelResult], plan: Plan) -> str:
    """The whole page as markdown, from the results alone."""
    parts = [_head(plan), _settings(results, plan), _figures(), "## Claim by claim\n"]
    parts += [claim(results) for claim in (_ends, _complete, _private, _worse)]
    parts.append(_times(results))
    return "\n".join(parts)


def _table(header: Row, rows: Sequence[Row]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _head(plan: Plan) -> str:
    kind = "a **quick** run, with reduced settings" if plan.quick else "a full run"
    return (
        "# The paper's figures, reproduced\n\n"
        f"Written by `privfunnel reproduce` (privfunnel {__version__}, Python {platform.python_version()}, "
        f"seed {plan.seed}) from {kind}. All amounts are in nats and are recomputed from the channel that a method "
        "returned, whatever the method itself reports. Every point is in `points.csv`.\n"
    )


def _settings(results: list[PanelResult], plan: Plan) -> str:
    rows = []
    for result in results:
        panel, runs = result.panel, plan.runs(result.panel)
        aem, drs = runs[AEM][1], runs[DRS][1]
        rows.append([
            panel.title,
            "none" if panel.perturbation is None else f"1e-3 added to each of the {panel.perturbation}",
            f"{result.disclosure_ceiling:.6f}",
            f"{result.leakage_ceiling:.6f}",
            f"N = {aem['outputs'] or 'M + 1'}, {aem['max_steps']} steps, best of {aem['restarts']}, "
            f"{plan.points(panel)} values of R",
            f"{drs['time_limit']:g} s",
        ])  # fmt: skip
    return f"""## Settings

{_table(["panel", "perturbation", "H(X)", "I(S;X)", "AEM", "CPU time of a DRS sweep, at most"], rows)}
The paper says that 1e-3 was added to each entry of the empirical distributions. Added to probabilities this makes much
of a large table uniform; added to counts it changes next to nothing. Each figure says which reading it uses.

AEM is the plain algorithm (`accelerate=False`), one independent problem for each R. DRS is shown three times:

- *authors' settings*: the published iteration, constants and sweep;
- *tuned settings*: the same with penalty {TUNED["penalty"]:g} and first step {TUNED["step"]:g}, about the best of some
  thirty combinations that were tried on the synthetic and heart-failure problems;
- *repaired*: this project's own variant (line search, stationarity as stopping test).

Smaller tables do not need the CPU time that a sweep is given; the last table says which sweeps were cut, and after how
many runs. As its authors do, the DRS curves show the best run in each tenth of a nat; for the published iteration only
runs that met its own stopping test count.
"""


def _figures() -> str:
    captions = {
        "figure-1": "Figure 1: the synthetic problems",
        "figure-2-probabilities": "Figure 2: the real tables, 1e-3 added to each probability",
        "figure-2-counts": "Figure 2 again, 1e-3 added to each count",
    }
    pictures = [f"![{captions[name]}]({name}.png)\n\n*{captions[name]}.*\n" for name in FIGURES]
    return "## Figures\n\n" + "\n".join(pictures)


def _verdict(shares: Sequence[bool]) -> str:
    if all(shares):
        return "confirmed on every panel"
    return f"confirmed on {sum(shares)} of {len(shares)} panels" if any(shares) else "not confirmed"


def _reach(result: PanelResult, name: str) -> float:
    """How close the runs of a method come to (H(X), I(S;X)), in nats: the larger of the two differences."""
    ends = [
        max(result.disclosure_ceiling - p.disclosure, abs(result.leakage_ceiling - p.leakage))
        for p in result[name].own
    ]
    return min(ends, default=float("inf"))


def _haste(results: list[PanelResult]) -> str:
    steps = [point.steps for result in results for point in result[DRS].own]
    if not steps:
        return "No run of the published iteration met its stopping test."
    return (
        f"Half of the points that the published iteration kept met its stopping test within {np.median(steps):.0f} "
        "steps: its two copies of the channel agree before either is stationary, and many runs end near their start."
    )


def _ends(results: list[PanelResult]) -> str:
    rows, aem_ok, drs_ok = [], [], []
    for result in results:
        last = result[AEM].points[-1]
        at_end = max(result.disclosure_ceiling - last.disclosure, abs(result.leakage_ceiling - last.leakage))
        aem_ok.append(at_end <= REACHED)
        reach = {name: _reach(result, name) for name in ALL_DRS}
        drs_ok.append(reach[DRS] <= REACHED)
        rows.append([result.panel.title, f"{at_end:.1e}", *(f"{value:.1e}" for value in reach.values())])
    return f"""### Both algorithms reach the end point (H(X), I(S;X))

AEM: {_verdict(aem_ok)}. DRS with its authors' settings: {_verdict(drs_ok)}. Counted as reached within {REACHED:g} nats
in both coordinates. At R = H(X) AEM answers with the closed form, a bijection; DRS has to get there by itself, so for
it only points that an iteration ended in are counted. {_haste(results)}

{_table(["distance to the end point, nats", AEM, *ALL_DRS], rows)}"""


def _complete(results: list[PanelResult]) -> str:
    rows, smooth = [], []
    for result in results:
        aem, title = result[AEM], result.panel.title
        asked = np.array([p.requested for p in aem.points])
        met = int((aem.disclosure >= asked - FEASIBILITY).sum())
        bump = float(np.max(aem.leakage - result.shared(AEM, aem.disclosure)))
        smooth.append(met == len(aem.points) and bump <= EQUAL)
        row = [title, f"{met} of {len(aem.points)}", f"{bump:.1e}"]
        for name in ALL_DRS:
            x = np.sort([0.0, *(p.disclosure for p in result[name].own), result.disclosure_ceiling])
            hole = float(np.diff(x).max()) / result.disclosure_ceiling
            row.append(f"{len(result[name].own)}; {100 * hole:.0f} %")
        rows.append(row)
    columns = [
        "panel",
        "AEM: R met",
        "AEM: highest bump",
        *(f"{name}: points; widest hole" for name in ALL_DRS),
    ]
    return f"""### AEM gives evenly spaced points and a smooth, complete curve; DRS does not

AEM: {_verdict(smooth)}, where that means that every asked R was met and no point lies more than {EQUAL:g} nats above
the lower convex envelope of its own curve (the optimum is convex, so that such a bump is suboptimal). DRS lands where
its multiplier takes it: shown are how many different points it kept, and the widest stretch without one as a share of
[0, H(X)].

{_table(columns, rows)}"""


def _free_share(result: PanelResult, name: str) -> float:
    """Largest share of H(X) up to which a method leaks at most ALMOST · I(S;X)."""
    grid = np.linspace(0.0, result.disclosure_ceiling, 401)
    fine = result.shared(name, grid) <= ALMOST * result.leakage_ceiling
    return float(grid[np.argmin(fine) - 1]) / result.disclosure_ceiling


def _private(results: list[PanelResult]) -> str:
    rows, wide = [], []
    for result in results:
        shares = [_free_share(result, name) for name in (AEM, *ALL_DRS)]
        rows.append([result.panel.title, *(f"{100 * share:.0f} %" for share in shares)])
        if not result.panel.instance.startswith("synthetic"):
            wide.append(shares[0] >= WIDE)
    return f"""### AEM reaches almost perfect privacy over a wide range of disclosures (real tables)

On the real tables: {_verdict(wide)}, taking *almost perfect* as at most {100 * ALMOST:g} % of I(S;X) and *a wide range*
as at least {100 * WIDE:g} % of H(X). Shown is how far up such a leakage lasts, with time sharing allowed to every
method.

{_table([f"leakage ≤ {100 * ALMOST:g} % of I(S;X) up to this share of H(X)", AEM, *ALL_DRS], rows)}"""


def _part(word: str, excess: Array, asked: Array, result: PanelResult) -> str:
    """At how many R one method is worse (or better), and by how much at most."""
    share = float((excess > EQUAL).mean())
    if share == 0.0:
        return f"{word} nowhere"
    at = int(np.argmax(excess))
    return f"{word} at {share:.0%} (by up to {excess[at]:.4f}, at {asked[at] / result.disclosure_ceiling:.2f} H(X))"


def _worse(results: list[PanelResult]) -> str:
    rows, worse = [], []
    for result in results:
        asked = np.array([p.requested for p in result[AEM].points])
        row = [result.panel.title]
        for name in ALL_DRS:
            excess = result.shared(name, asked) - result.shared(AEM, asked)
            if name == DRS:
                worse.append(bool((excess > EQUAL).any()))
            row.append(f"{_part('worse', excess, asked, result)}; {_part('better', -excess, asked, result)}")
        rows.append(row)
    return f"""### DRS is worse in a range of disclosures

DRS with its authors' settings: {_verdict(worse)}. Compared at the values of R that AEM was asked for, with time sharing
between a method's own points and the two ends allowed to both; differences up to {EQUAL:g} nats count as equal. This
favours DRS: without time sharing it has no answer at most R.

{_table(["leakage of DRS against AEM, share of R and nats", *ALL_DRS], rows)}"""


def _times(results: list[PanelResult]) -> str:
    rows = [
        [
            result.panel.title,
            series.name,
            f"{series.seconds:.1f}",
            f"{series.cpu_seconds:.1f}",
            series.message,
        ]
        for result in results
        for series in result.series
    ]
    return "## Time spent\n\n" + _table(["panel", "method", "seconds", "CPU seconds", "note"], rows)

"""Prove the curves of the packaged problems and show AEM and DRS beside them: ``docs/certified-curves.md``.

    python papers/certified_curves.py [--out out/certified] [--only heart-failure] [--quick]

Also draws the picture of the README. Each curve is saved when it is finished, and an interrupted run goes on where it
stopped. ``--quick`` rehearses it: one small case, few starts, and the page goes beside the results.
"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from prose import wrapped

import privfunnel as pf
from privfunnel.algorithms.deadline import cpu_clock
from privfunnel.certificate import load_bundle, save_bundle
from privfunnel.data import instances
from privfunnel.infra.storage import read_json, write_json
from privfunnel.model.question import ROUNDING
from privfunnel.report import plot

DOCS = Path(__file__).resolve().parents[1] / "docs"


@dataclass(frozen=True)
class Case:
    """A curve to prove: instance, perturbation, target gap in nats, seconds a point, outputs N for AEM."""

    key: str
    title: str
    instance: str
    perturbation: str | None
    gap: float
    time_limit: float
    outputs: int | None = None

    def problem(self) -> pf.Problem:
        """The problem."""
        return instances.load(self.instance, perturbation=self.perturbation)


CASES = (
    Case("synthetic-uniform", "Synthetic, uniform p(x)", "synthetic-uniform", None, 1e-6, 120, 4),
    Case("synthetic-skewed", "Synthetic, p(x) = (0.1, 0.3, 0.6)", "synthetic-skewed", None, 1e-6, 120, 4),
    Case("heart-failure", "Heart failure, raw counts", "heart-failure", None, 1e-6, 300),
    Case(
        "heart-failure-perturbed",
        "Heart failure, probabilities + 1e-3",
        "heart-failure",
        "probabilities",
        1e-6,
        300,
    ),
    Case("census-income", "Census income, raw counts", "census-income", None, 1e-5, 600),
)

#: Solver and options of each curve of a case; the first one proves.
AEM, DRS = "AEM, best of 30 × 500", "DRS, authors' settings"


def curves(
    case: Case, out: Path, quick: bool = False
) -> tuple[pf.Curve, dict[str, pf.Curve], dict[str, tuple[float, float]]]:
    """The proved curve, the compared ones, and (wall-clock, CPU) seconds of each; finished ones are read back."""
    runs = {
        "certified": ("global", {"gap": case.gap, "time_limit": case.time_limit}),
        AEM: (
            "aem",
            {"restarts": 2 if quick else 30, "max_steps": 500, "outputs": case.outputs, "accelerate": False},
        ),
        DRS: ("drs", {"time_limit": 0.5 if quick else 150.0}),
    }
    problem, found, seconds = case.problem(), {}, {}
    for name, (solver, options) in runs.items():
        file = out / f"{case.key}-{solver}.json"
        if not file.exists():
            print(f"{case.title}: {name} …", flush=True)
            wall, cpu = time.perf_counter(), time.process_time()
            # DRS counts CPU seconds: a busy machine gives it no less than an idle one.
            with cpu_clock() if name == DRS else nullcontext():
                curve = pf.trace(problem, solver=solver, throw=False, **options)
            spent = (time.perf_counter() - wall, time.process_time() - cpu)
            if curve.certificates:
                save_bundle(file.with_suffix(".npz"), curve.certificates)
            write_json(file, {"curve": curve.to_dict(), "seconds": spent})
        data = read_json(file)
        found[name], seconds[name] = pf.Curve.from_dict(data["curve"]), data["seconds"]
    proved = found.pop("certified")
    return verified(proved, out / f"{case.key}-global.npz"), found, seconds


def verified(curve: pf.Curve, file: Path) -> pf.Curve:
    """Check every proof of the file again, hold every stored bound against them, and give the points their proofs."""
    problem, proofs = curve.problem, load_bundle(file)
    for proof in proofs:
        proof.verify(problem)
    solutions = []
    for solution in curve.solutions:
        asked = solution.disclosure if solution.requested is None else solution.requested
        best = max(proofs, key=lambda proof: proof.lower_bound(asked))
        proved = max(best.lower_bound(asked), float(problem.lower_bound(asked)))
        if asked >= problem.disclosure_ceiling - ROUNDING:
            proved = problem.leakage_ceiling
        if solution.lower_bound > proved + ROUNDING:
            raise SystemExit(
                f"the bound {solution.lower_bound} at {asked} is not proved: the best proof gives {proved}"
            )
        solutions.append(replace(solution, certificate=best))
    return replace(curve, solutions=tuple(solutions))


def draw(case: Case, proved: pf.Curve, others: dict[str, pf.Curve]) -> Figure:
    """The curves on the left; on the right how far each is above the proved bound, on a logarithmic scale."""
    with rc_context(plot.STYLE):
        figure = Figure(figsize=(9.0, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        plot.curve(proved, others=others, ax=left, title=case.title, label="certified optimum")
        excess(right, case, proved, others)
    return figure


def excess(ax: Axes, case: Case, proved: pf.Curve, others: dict[str, pf.Curve]) -> None:
    """Leakage above the proved lower bound at each R; below 1e-9 nats is shown as 1e-9."""
    share = proved.disclosure[1:-1] / proved.problem.disclosure_ceiling
    floor = 1e-9
    for i, (name, curve) in enumerate(others.items()):
        above = np.maximum(curve.leakage - proved.lower_bound, floor)[1:-1]
        ax.semilogy(
            share, above, color=plot.COLOURS[i], marker=plot.MARKERS[i], ms=3, lw=1, ls="--", label=name
        )
    ax.semilogy(
        share,
        np.maximum(proved.gap, floor)[1:-1],
        color=plot.BLUE,
        marker="o",
        ms=3,
        lw=1.2,
        label="certified optimum",
    )
    ax.axhline(case.gap, color=plot.GREY, lw=0.8, ls=":", label=f"target gap {case.gap:g}")
    ax.set_xlabel("disclosure / $H(X)$")
    ax.set_ylabel("leakage above the proved bound [nats]")
    ax.set_title("distance from the optimum, at most")
    ax.legend(fontsize=7)


def section(
    case: Case, proved: pf.Curve, others: dict[str, pf.Curve], seconds: dict[str, tuple[float, float]]
) -> str:
    """Markdown of one case."""
    problem = proved.problem
    lines = [
        f"## {case.title}\n",
        f"{problem.n_s} × {problem.n_x} symbols, H(X) = {problem.disclosure_ceiling:.6f}, I(S;X) = "
        f"{problem.leakage_ceiling:.6f}, free disclosure {pf.free_disclosure(problem):.6f} nats. "
        f"Target gap {case.gap:g}; largest gap reached **{float(proved.gap.max()):.1e}**, at "
        f"{sum(proved.gap <= case.gap)} of {len(proved.gap)} points within the target. "
        f"Time (wall clock / CPU seconds): certified {seconds['certified'][0]:.1f} / {seconds['certified'][1]:.1f}, "
        + ", ".join(f"{name} {seconds[name][0]:.1f} / {seconds[name][1]:.1f}" for name in others)
        + ".\n",
        f"![{case.title}](figures/certified-{case.key}.png)\n",
        "| R | R / H(X) | proved lower bound | certified leakage | gap | "
        + " | ".join(f"{n}: above" for n in others)
        + " |",
        "|---|---|---|---|---|" + "---|" * len(others),
    ]
    for i, solution in enumerate(proved.solutions):
        above = " | ".join(
            f"{max(curve.leakage[i] - solution.lower_bound, 0.0):.1e}" for curve in others.values()
        )
        lines.append(
            f"| {solution.disclosure:.6f} | {solution.disclosure / problem.disclosure_ceiling:.3f} | "
            f"{solution.lower_bound:.7f} | {solution.leakage:.7f} | {solution.gap:.1e} | {above} |"
        )
    return "\n".join(lines) + "\n"


def front_page(docs: Path, quick: bool = False) -> None:
    """The picture of the README: heart failure in bits, with further points where the curve bends.

    The estimate for patients like these is an average over random splits; its bound is that of the first.
    """
    refine, splits = (0, 1) if quick else (6, SPLITS)
    curve = pf.trace(instances.load("heart-failure"), refine=refine, solver="global", time_limit=120.0)
    figure = plot.curve(
        curve,
        units="bits",
        title="Heart failure: 299 patients",
        label="achieved, proved optimal",
        population=pf.audit.population_band(curve.problem, curve.disclosure, splits=splits),
    )
    plot.save(figure, docs / "figures" / "heart-failure.png")


#: Random halves of the rows behind the estimate for patients who are not in the table.
SPLITS = 20

INTRODUCTION = """# Certified curves

The funnels of the packaged problems at the 20 points of their default curves, each with a proved lower bound
(`privfunnel.trace(problem, solver="global")`), and beside them the curves of AEM (the plain algorithm, best of 30
starts with 500 steps, N = 4 outputs for the synthetic problems and M + 1 for the others) and of DRS with its authors'
settings. All three are time-shared: a method is given the lower convex envelope of everything it found. Every
certificate was saved, read back and verified again before this page was written by `papers/certified_curves.py`; the
columns *above* say how far a method's leakage lies above the proved bound, so that the true distance from the optimum
is that or up to the gap less. A DRS sweep had 150 s of CPU time, which only the census table uses up. Amounts are in
nats.

"""


def main() -> None:
    """Compute what is missing, then write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/certified"))
    parser.add_argument("--only", help="compute this case and write no page")
    parser.add_argument("--quick", action="store_true", help="a rehearsal, whose page goes to OUT/docs")
    options = parser.parse_args()
    docs = options.out / "docs" if options.quick else DOCS
    options.out.mkdir(parents=True, exist_ok=True)
    (docs / "figures").mkdir(parents=True, exist_ok=True)
    sections = []
    for case in CASES[: 1 if options.quick else None]:
        if options.only in (None, case.key):
            proved, others, seconds = curves(case, options.out, options.quick)
            figure = draw(case, proved, others)
            plot.save(
                figure, *(docs / "figures" / f"certified-{case.key}{suffix}" for suffix in (".png", ".svg"))
            )
            sections.append(section(case, proved, others, seconds))
            print(f"{case.title}: largest gap {float(proved.gap.max()):.2e} nats", flush=True)
    if options.only is None:
        front_page(docs, options.quick)
        (docs / "certified-curves.md").write_text(wrapped(INTRODUCTION + "\n".join(sections)), "utf-8")


if __name__ == "__main__":
    main()

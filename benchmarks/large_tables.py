# ruff: noqa: E501 -- the page's own sentences
"""The sections of the benchmarks page on tables with very many public symbols."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.markdown import machine, table
from privfunnel.certificate.answer import DEFAULT_GAP


def binary(result: dict[str, Any]) -> str:
    """Two private symbols."""
    points = [
        (f"{row['n_x']:,}", f"{row['share']:.2f}", f"{row['cpu_seconds']:.2f}", row["slopes_tried"],
         f"{row['one_slope_seconds']:.3f}", f"{row['one_proof_seconds']:.3f}", f"{row['gap']:.1e}")
        for row in result["points"]
    ]  # fmt: skip
    free = [(f"{row['n_x']:,}", f"{row['cpu_seconds']:.2f}", f"{row['gap']:.1e}") for row in result["free"]]
    return f"""## Two private symbols

Random tables whose p(s\\|x) all differ, points between the free disclosure (share 0) and H(X) (share 1): CPU seconds for
value, channel and proved bound, with no other solver to compare with at these sizes.

{table(["M", "share", "seconds", "slopes", "s a slope", "s a proof", "gap, nats"], points)}
The free disclosure and its proof:

{table(["M", "seconds", "gap, nats"], free)}
Peak memory {result["peak"] / 2**20:.0f} MiB. {machine(result)}"""


def wide(result: dict[str, Any]) -> str:
    """Wide tables, stage by stage."""
    names = ("count", "problem", "classes", "curve", "point", "mechanism")
    forms = ("records", "decoys", "symbols")
    sizes = result["sizes"]
    stages = [
        (f"{size['rows']:,}", f"{size['n_x']:,}", f"{size['n_classes']:,}",
         *(f"{size['stages'][name]['cpu_seconds']:.2f}" for name in names), f"{size['largest_gap']:.0e}")
        for size in sizes
    ]  # fmt: skip
    releases = [
        (f"{size['rows']:,}", f"{size['n_y']:,}",
         *(f"{size['rows'] / size['stages'][form]['cpu_seconds'] / 1e6:.2f}" for form in forms),
         f"{size['stages'][forms[-1]]['peak_bytes'] / 2**30:.2f}")
        for size in sizes
    ]  # fmt: skip
    slowest = min(sizes[-1]["rows"] / sizes[-1]["stages"][form]["cpu_seconds"] for form in forms)
    aim = "met" if slowest >= 3e5 else "not met"
    return f"""## Wide tables

Twelve public columns and a private one with two values, in a Parquet file: CPU seconds of each stage. *Curve* is twenty
points, each with its proof; *point* one of them, at 98 % of H(X).

{table(["rows", "M", "classes", "count", "problem", "classes, s", "curve", "point", "mechanism", "largest gap"], stages)}
Releases of the same tables, in millions of rows a CPU second, files and codebooks included, and the peak memory of it
all, in GiB:

{table(["rows", "N", "records", "decoys", "symbols", "peak"], releases)}
The curve is solved on the classes, so that M costs it nothing; its time changes more with the solver that the number
of classes calls for. *Problem*, which names all public symbols, and releases, which begin with tables of them, grow with
M. The aim of 0.3 million rows a second is {aim} by every form at the largest size. What limits a release of records there: a
quarter of its CPU time goes into the codebook, a seventh into recognising texts, a tenth each into writing Parquet and into
shuffling through the disk, and the rest into looking symbols up, drawing, and measuring what survives.

{machine(result)}"""


def large(result: dict[str, Any]) -> str:
    """Hundreds to thousands of public symbols, beside peers without a proof."""
    tables = result["tables"]
    points = [
        (f"{row['n_s']} × {row['n_x']:,}, {row['like']}", f"{row['n_classes']:,}", f"{point['share']:.0%}",
         *(_percent(point[name], row) for name in ("leakage", "lower_bound")), f"{point['cpu_seconds']:.1f}",
         *(_percent(point[name], row) for name in ("greedy", "aem")))
        for row in tables
        for point in row["points"]
    ]  # fmt: skip
    free = [
        (f"{row['n_s']} × {row['n_x']:,}", *(f"{bound / row['h_x']:.2%}" for bound in row["free"]),
         f"{1.0 - math.log(row['rank']) / row['h_x']:.2%}", f"{row['free_seconds']:.1f}")
        for row in tables
    ]  # fmt: skip
    found = [point for row in tables for point in row["points"]]
    above = [p for p in found if p["leakage"] > min(p["greedy"], p["aem"]) + DEFAULT_GAP]
    slowest = max(point["cpu_seconds"] for point in found)
    proved = sum(point["status"] == "optimal" for point in found)
    peers = "never above its peers" if not above else f"**above its peers** at {len(above)} points"
    minute = f"{'met' if slowest < 60.0 else 'missed'}, at most {slowest:.0f} s"
    return f"""## Large tables

Synthetic surveys of thousands of people, with the sizes of real ones (`benchmarks/bench_large.py`): leakage in % of
I(S;X) at a share of H(X), by `auto` as it comes, with its proved bound and its CPU seconds; by `greedy`; and by AEM,
which has the time that `auto` took.

{table(["table", "classes", "of H(X)", "auto", "bound", "s", "greedy", "AEM"], points)}
`auto` is {peers} by more than the gap it is asked for, {DEFAULT_GAP:g} nats; {proved} of {len(found)} points are proved to
that. The aim of a minute a point is {minute}.

What can be released without leakage, in % of H(X): what was found, what is proved to be the most, and H(X) − log rank(P),
which is always free; CPU seconds of the search.

{table(["table", "at least", "at most", "always", "s"], free)}
{machine(result)}"""


def many(result: dict[str, Any]) -> str:
    """Many private symbols; parts that were not measured are left out."""
    parts = [_eight(result["eight"])] if "eight" in result else []
    parts += [_growth(result["growth"])] if "growth" in result else []
    parts += [_census(result["census"])] if "census" in result else []
    parts += [_line(result["line"], result.get("upper"))] if "line" in result else []
    return "\n".join(["## Many private symbols\n", *parts, machine(result)])


def _eight(row: dict[str, Any]) -> str:
    points = [
        (f"{point['way']:.0%}", f"{point['share']:.1%}", f"{point['leakage']:.6f}", f"{point['cpu_seconds']:.0f}",
         f"{point['aem']:.6f}", f"{point['aem_seconds']:.0f}", f"{point['lower_bound']:.6f}", f"{point['closed_form']:.6f}")
        for point in row["points"]
    ]  # fmt: skip
    worse = sum(point["leakage"] > point["aem"] + DEFAULT_GAP for point in row["points"])
    unproved = sum(point["lower_bound"] <= point["closed_form"] + DEFAULT_GAP for point in row["points"])
    return f"""Eight private symbols, {row["n_x"]:,} public ones in {row["n_classes"]:,} classes, a synthetic survey, at shares of the way
from the free disclosure found to H(X): leakage in nats by `auto` as it comes, by AEM with 30 restarts of 500 steps on
the classes, the bound that `auto` proves, and the closed form max(0, R − H(X\\|S)); CPU seconds.

{table(["of the way", "of H(X)", "auto", "s", "AEM", "s", "bound", "closed form"], points)}
The aims: values no worse than AEM's, {_aim(worse, points)}; bounds above the closed form, {_aim(unproved, points)}.
"""


def _aim(missed: int, points: list[Any]) -> str:
    return "met" if not missed else f"**missed** at {missed} of {len(points)} points"


def _growth(rows: list[dict[str, Any]]) -> str:
    found = [
        (row["n_s"], f"{row['n_x']:,}", f"{row['n_classes']:,}", _percent(row["leakage"], row), _percent(row["lower_bound"], row),
         f"{row['leakage'] - row['lower_bound']:.1e}", f"{row['cpu_seconds']:.1f}")
        for row in rows
    ]  # fmt: skip
    return f"""How a point grows with K and classes: surveys at 90 % of H(X), leakage and bound in % of I(S;X) after at most five CPU
seconds.

{table(["K", "M", "classes", "leakage", "bound", "gap, nats", "s"], found)}
What costs grow with, and what limits them:

| size | what grows | what limits |
|---|---|---|
| rows | counting and releasing, in proportion | the engine's group-by, and the CPU seconds of a release (*Wide tables* below) |
| M, public symbols | naming and lumping them, the tables of a release | one to two KiB of memory each; the curve does not see them |
| classes, K = 2 | a staircase and its proof for each slope tried | little: see the first rows above |
| classes, K > 2 | values: tables of classes × outputs; proofs: boxes | proofs far below H(X), where many posteriors are nearly as good |
| K | posteriors have up to K classes, boxes as many dimensions | proofs: see the last rows above |
"""


def _census(row: dict[str, Any]) -> str:
    points = [
        (f"{point['share']:.0%}", f"{point['leakage']:.6f}", f"{point['lower_bound']:.6f}",
         f"{point['leakage'] - point['lower_bound']:.1e}", point["status"], f"{point['cpu_seconds']:.1f}")
        for point in row["points"]
    ]  # fmt: skip
    return f"""The census with 1e-3 added to every probability, {row["n_s"]} × {row["n_x"]}, one component, in nats, by `auto` as it comes:

{table(["of H(X)", "leakage", "bound", "gap", "status", "s"], points)}"""


#: What twenty points of UCI Adult may take, in seconds, and the gaps of all and of those above a share of H(X).
LINE_AIMS = {"seconds": 300.0, "gap": 1e-3, "above": 0.9, "gap_above": 1e-6}


def _line(row: dict[str, Any], upper: dict[str, Any] | None) -> str:
    free = sum(point["leakage"] < DEFAULT_GAP for point in row["points"])
    text = f"""UCI Adult, income and sex private, seven public columns: {row["n_s"]} × {row["n_x"]:,}, {row["n_classes"]} classes. The curve as `pf.trace`
comes, {len(row["points"])} points, took {row["cpu_seconds"]:.0f} CPU seconds, proofs and their check included; {free} of the points leak nothing, the others, in
nats:

{_points(row)}
The aim of 5 minutes, gaps of 1e-3 and above 0.9 H(X) of 1e-6: {_line_aim(row)}.
"""
    if upper is not None:
        text += f"""
The harder part alone, {len(upper["points"])} points from what is free to H(X), in {upper["cpu_seconds"]:.0f} CPU seconds, the aim {_line_aim(upper)}:

{_points(upper)}"""
    return text


def _points(row: dict[str, Any]) -> str:
    found = [
        (f"{point['share']:.2%}", f"{point['leakage']:.6f}", f"{point['lower_bound']:.6f}",
         f"{max(point['leakage'] - point['lower_bound'], 0.0):.1e}", point["status"])
        for point in row["points"]
        if point["leakage"] >= DEFAULT_GAP
    ]  # fmt: skip
    return table(["of H(X)", "leakage", "bound", "gap", "status"], found)


def _line_aim(row: dict[str, Any]) -> str:
    missed = 0
    for point in row["points"]:
        aim = LINE_AIMS["gap_above" if point["share"] > LINE_AIMS["above"] else "gap"]
        missed += point["leakage"] - point["lower_bound"] > aim
    late = "" if row["cpu_seconds"] <= LINE_AIMS["seconds"] else ", and the time is longer"
    return _aim(missed, row["points"]) + late


def _percent(leakage: float, row: dict[str, Any]) -> str:
    """A leakage in % of I(S;X), what is far below any gap as 0."""
    share = leakage / row["leakage_ceiling"]
    return "0" if share < 1e-7 else f"{100.0 * share:.4g}"


#: What the curve of the census table and one point of a million symbols may take, in seconds, and the gap of each.
TASK_AIMS = {"curve": 30.0, "point": 120.0, "gap": 1e-5}


def task(result: dict[str, Any]) -> str:
    """Releases for a task."""
    curve, sizes = result["census"], result["sizes"]
    rows = [
        (f"{size['n_x']:,}", f"{size['cpu_seconds']:.1f}", f"{size['gap']:.1e}", f"{size['leakage']:.6f}", size["n_y"],
         f"{size['peak_bytes'] / 2**30:.2f}")
        for size in sizes
    ]  # fmt: skip
    met = curve["cpu_seconds"] <= TASK_AIMS["curve"] and curve["largest_gap"] <= TASK_AIMS["gap"]
    last = sizes[-1]
    large = last["cpu_seconds"] <= TASK_AIMS["point"] and last["gap"] <= TASK_AIMS["gap"]
    return f"""## Releases for a task

`census-task`, {curve["n_x"]} public symbols, sex private, income the task: {curve["points"]} points of the curve took
{curve["cpu_seconds"]:.1f} CPU seconds, with a largest gap of {curve["largest_gap"]:.1e} nats to the proved bound. The aim was 20 points
proved to 1e-05 in 30 seconds: {"met" if met else "not met"}.

Random tables, two private symbols, a task of two, all public symbols different: one point at {100 * result["share"]:.0f} % of I(U;X), its
proof included.

{table(["M", "seconds", "gap, nats", "leakage", "N", "peak, GiB"], rows)}
The aim was two minutes for the largest, proved to 1e-05: {"met" if large else "not met"}. Programs are solved on a few thousand cells, so
that M costs the passes over all symbols only: forming cells, checking proofs, writing the channel.

{machine(result)}"""


def guarded(result: dict[str, Any]) -> str:
    """Attackers who know something, and guarantees."""
    answers = [
        (each["what"], f"{100 * each['disclosure']:.1f} %", f"{each['leakage']:.6f}", f"{each['gap']:.1e}",
         f"{each['steps']:,}", f"{each['cpu_seconds']:.1f}")
        for each in result["answers"]
    ]  # fmt: skip
    curves = result["curves"]
    rows = [
        (f"{100 * points[0]['disclosure']:.1f} %", f"{points[-1]['leakage']:.6f}",
         *(each for at in points for each in (f"{at['gap']:.1e}", f"{at['steps']:,}")))
        for points in zip(*(each["points"] for each in curves), strict=True)
    ]  # fmt: skip
    heads = [f"{name} in {each['cpu_seconds']:.0f} s" for each in curves for name in ("gap", "boxes")]
    proved = sum(at["gap"] <= curves[0]["aim"] for at in curves[0]["points"])
    return f"""## Attackers who know something, and guarantees

Single answers, asked for with a gap of {curves[0]["aim"]:.0e} nats; under a guarantee the most disclosure is asked for, and the gap is its.

{table(["", "disclosure", "leakage", "gap, nats", "boxes", "CPU s"], answers)}
Heart failure against all {curves[0]["sets"]} sets of known columns: the curve of the worst attacker, {len(rows)} points, with
{" and ".join(f"{each['limit']:.0f}" for each in curves)} seconds a point. Boxes are all that were opened, those of attempts that came upon a better posterior included.

{table(["disclosure", "leakage", *heads], rows)}
The aim was all points proved to 1e-05 in a minute: {"met" if proved == len(rows) and curves[0]["cpu_seconds"] <= 60.0 else f"not met, {proved} of {len(rows)} are"}.

{machine(result)}"""

# ruff: noqa: E501 -- the page's own sentences
"""Write docs/benchmarks.md from the JSON under benchmarks/results: no number of its tables is typed by hand."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from papers.prose import wrapped

from benchmarks import harness
from benchmarks.device import profile
from benchmarks.dual import bottleneck
from benchmarks.large_tables import binary, guarded, large, many, task, wide
from benchmarks.markdown import machine, table
from benchmarks.steps import parts

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"

HEAD = """# Benchmarks

This page is written by `make bench` from the files under `benchmarks/results/`.

- All variants of a table ran in one session, taking turns. Medians of their repeats are compared.
- Trust the ratios more than the seconds.
- Times are **CPU time** unless a column says otherwise: the machines are shared, and the wall clock would measure the
  neighbours.
- Where a section has an aim, it says whether the aim was met.
"""


#: What counting and releasing should cost at most, as a multiple of bare DuckDB's CPU time.
TABLE_AIMS = {"count": 1.2, "count with bins": 1.2, "release symbols": 4.0, "release records": 4.0}
MEMORY_AIM_MIB = 2048


def step(result: dict[str, Any]) -> str:
    """The cost of one step."""
    cost, ratios, evaluations = result["ns_an_entry"], result["ratios"], result["evaluations_a_step"]
    library = result["library_ns"]
    fastest = {
        name: min(values, key=lambda key, values=values: values[key]) for name, values in library.items()
    }
    rows = [
        ("Algorithm 1 as printed, NumPy, M×N×K array", f"{cost['printed']:.1f}", f"{ratios['printed_over_kernel']:.1f}×"),
        ("clean NumPy, no such array (the reference step)", f"{cost['clean']:.1f}", f"{ratios['clean_over_kernel']:.1f}×"),
        ("compiled plain step", f"{cost['kernel']:.2f}", "1"),
        ("compiled accelerated step", f"{cost['accelerated']:.2f}", f"{cost['accelerated'] / cost['kernel']:.2f}×"),
        ("floor: the exponentials and logarithms alone", f"{result['floor_ns_an_entry']:.2f}",
         f"1/{ratios['kernel_over_floor']:.2f}"),
    ]  # fmt: skip
    return f"""## 1. One step

{result["problem"]}: K = {result["n_s"]}, M = {result["n_x"]}, N = {result["n_y"]}. Nanoseconds of one thread for one step and
entry of the M×N table. A step finds λ to 1e-13 nats. That took {evaluations["kernel"]:.1f} evaluations of G in the compiled
code, whose first guess is where λ is heading, and {evaluations["printed"]:.1f} in the printed one. Of the former {evaluations["renewals"]:.1f} need no
exponentials: λ has moved so little since the evaluation before that weights are multiplied by a short polynomial.

{table(("", "ns an entry", "over compiled"), rows)}
With two threads, by the wall clock, the compiled step is {ratios["clean_over_kernel_two_threads"]:.1f}× as fast as clean
NumPy. Two threads were {result["two_thread_speedup"]:.2f}× as fast as one under the load below.

The floor is {evaluations["kernel"]:.1f} exponentials an entry, one for each evaluation, and the K·N + N + M logarithms that the
mathematics needs, at the speed of the fastest library here:

{table(("", "fastest, ns", "NumPy, ns"), [(name, f"{library[name][fastest[name]]:.2f} ({fastest[name]})", f"{library[name]['numpy']:.2f}") for name in ("exp", "log")])}
Between the floor and the step stand:

- three sums an entry in each evaluation: about as much work as the exponential itself, a dozen multiply-adds;
- the two matrix products with p(s|x);
- the traffic of three M×N tables between the second-level cache and the registers.

{machine(result)}"""


def quality(result: dict[str, Any]) -> str:
    """Time to quality."""
    parts = []
    for name in dict.fromkeys(row["instance"] for row in result["acceleration"]):
        rows = [row for row in result["acceleration"] if row["instance"] == name]
        for share in dict.fromkeys(row["share"] for row in rows):
            mine = [row for row in rows if row["share"] == share]

            def middle(get: Callable[[dict[str, Any]], float], mine: list[dict[str, Any]] = mine) -> float:
                return statistics.median(get(row) for row in mine)

            parts.append(
                (
                    name, f"{share:g}", len(mine), f"{middle(lambda r: r['plain_leakage']):.6f}",
                    f"{middle(lambda r: r['plain_seconds']):.3f}", f"{middle(lambda r: r['steps']):.0f}",
                    f"{middle(lambda r: r['seconds']):.3f}", f"{middle(lambda r: r['ratio']):.1f}×",
                    f"{middle(lambda r: r['full_leakage']):.6f}", f"{middle(lambda r: r['full_seconds']):.3f}",
                )
            )  # fmt: skip
    ratios = {
        name: statistics.median(row["ratio"] for row in result["acceleration"] if row["instance"] == name)
        for name in dict.fromkeys(row["instance"] for row in result["acceleration"])
    }
    missed = sum(
        row["matched"] > row["plain_leakage"] * (1.0 + 1e-3) + 1e-9 for row in result["acceleration"]
    )
    text = f"""## 2. Time to quality

### Accelerated against plain AEM

Both with 30 restarts and one thread. Medians over seeds; leakages in nats, seconds of CPU.

- *Plain* is 500 steps of Algorithm 1.
- *Matched* is accelerated AEM with the smallest of a few values of `max_steps` whose leakage is at most that of plain
  AEM (up to 0.1 %).
- *Full* is accelerated AEM with its default of 500 steps.

{
        table(
            (
                "instance",
                "R / H(X)",
                "seeds",
                "plain: leakage",
                "s",
                "matched: steps",
                "s",
                "faster",
                "full: leakage",
                "s",
            ),
            parts,
        )
    }
Median of the ratios: {", ".join(f"{name} {ratio:.1f}×" for name, ratio in ratios.items())}. {missed} of {
        len(result["acceleration"])
    } runs did not get there within {
        max(row["steps"] for row in result["acceleration"])
    } steps; they count with the time of all of those.

What to know about these ratios:

- On heart failure a solve takes less than a hundredth of a second. A quarter of it goes into drawing the starts in
  Python, which acceleration does not shorten.
- The rules for retiring restarts were chosen among six settings tried on these two tables, with four of the seeds on
  heart failure and the one on census. So the ratios flatter them a little.

`privfunnel/algorithms/aem/schedule.py` describes what acceleration consists of: over-relaxation by the measured curvature,
momentum with a monotone fallback, inexact roots, a ramp of the disclosure, a race of the restarts. Tried and not kept:

- annealing the disclosure from above: the runs freeze where they start;
- warm starts of λ by its trend in the accelerated step: no fewer evaluations;
- matching the anchors to the channel between two levels of the ramp: no better than random ones;
- dropping vanished outputs during a run: few vanish on census, it is single entries that do;
- letting every restart run to its end: the same answers on heart failure in twice the time.

### All methods

One solve each, with a limit of {
        result[
            "limit_seconds"
        ]:g} s of wall-clock time where the method has one. A dash means: no channel with
the asked disclosure.

"""
    rows = result["side_by_side"]
    names = list(dict.fromkeys(row["solver"] for row in rows))
    cells = list(dict.fromkeys((row["instance"], row["share"]) for row in rows))
    found = {(row["instance"], row["share"], row["solver"]): row for row in rows}

    def cell(key: tuple[str, float], solver: str) -> str:
        row = found[(*key, solver)]
        if row["leakage"] is None or row.get("status") == "failed":
            return "–"
        return f"{row['leakage']:.6f} ({row['cpu_seconds']:.2f} s)"

    for name in dict.fromkeys(instance for instance, _ in cells):
        mine = [key for key in cells if key[0] == name]
        proved = [max(found[(*key, solver)].get("lower_bound") or 0.0 for solver in names) for key in mine]
        text += f"**{name}**, leakage in nats (CPU seconds)\n\n"
        text += table(
            ("", *(f"R = {share:g}·H(X)" for _, share in mine)),
            [*((solver, *(cell(key, solver) for key in mine)) for solver in names),
             ("largest proved lower bound", *(f"{bound:.6f}" for bound in proved))],
        ) + "\n"  # fmt: skip
    return text + machine(result)


def growth(result: dict[str, Any]) -> str:
    """How time and memory grow."""
    titles = {
        "n_x": "M (with N = M + 1, K = 10)",
        "n_s": "K (M = 100)",
        "n_y": "N (M = 100, K = 10)",
        "runs": "runs in the batch (M = 100, K = 10)",
        "threads": "threads, wall clock (16 runs, M = 100)",
    }
    text = (
        "## 3. Growth\n\nSeconds for one step of one run, by the compiled plain step on random dense tables. The work is "
        "proportional to M·N·(a few exponentials + 2K multiply-adds), so that M counts twice. Beyond M ≈ 250 the three "
        "tables of a run no longer fit a core's second-level cache, beyond M ≈ 1000 not the third. Each evaluation of G "
        "then waits for memory, which lifts the exponent above 2.\n\n"
    )
    for name, rows in result["sweeps"].items():
        exponent = result["exponents"].get(name)
        fitted = "" if exponent is None else f", exponent of the last three {exponent:.2f}"
        text += f"**{titles[name]}**{fitted}\n\n" + table(
            [str(row["size"]) for row in rows], [[f"{row['seconds_a_step']:.3g}" for row in rows]]
        ) + "\n"  # fmt: skip
    text += "Whole solves by accelerated AEM at R = 0.5·H(X), each in a process of its own:\n\n"
    text += table(
        ("K × M", "restarts", "steps", "CPU s", "peak memory, MB", "shortfall of disclosure"),
        [
            (f"{row['n_s']} × {row['n_x']}", row["restarts"], row["max_steps"], f"{row['cpu_seconds']:.1f}",
             f"{row['peak_bytes'] / 1e6:.0f}", f"{max(row['shortfall'], 0.0):.1e}")
            for row in result["solves"]
        ],
    )  # fmt: skip
    return text + "\n" + machine(result)


def gpu(result: dict[str, Any]) -> str:
    """The GPU."""
    census = result["census"]
    rows = [
        (label, f"{census[label]['seconds']:.2f}", f"{max(census[label]['worst_shortfall'], 0.0):.1e}")
        for label in ("plain", "accelerated")
    ]
    steps = [
        (f"{row['n_s']} × {row['n_x']}", "fused kernels" if row["fused"] else "eager PyTorch", row["runs"], f"{1e3 * row['seconds_a_step']:.2f}", f"{1e3 * row['seconds_an_accelerated_step']:.2f}", f"{row['ns_an_entry']:.3f}",
         f"{row['evaluations_a_step']:.1f}", f"{100 * row['share_of_limit']:.0f} %", f"{row['peak_bytes'] / 1e9:.1f}")
        for row in result["steps"]
    ]  # fmt: skip
    large = result.get("large")
    tail = ""
    if large is not None:
        tail = (
            f"\nA whole accelerated solve of the {large['n_s']} × {large['n_x']} problem at 0.6·H(X), {large['restarts']} "
            f"restarts × {large['max_steps']} steps: {large['seconds']:.0f} s, most of them on the host, which draws and "
            "lifts the starts.\n"
        )
    agreement = ""
    if "cpu_difference" in census:
        agreement = (
            f" Against the compiled CPU run with the same seed the best leakages differ by at most "
            f"{census['cpu_difference']['plain']:.1e} nats (plain) and {census['cpu_difference']['accelerated']:.1e} "
            "(accelerated, where a last digit may decide whether a step is taken)."
        )
    return f"""## 4. GPU

Measured by hand with `benchmarks/bench_gpu.py` on one {result["device"]} (PyTorch {
        result["torch"]
    }); wall-clock seconds.
Measured limits of the device: {
        result["limits"]["copy_bytes_per_s"] / 1e12:.2f} TB/s (copy, read + written) and
{result["limits"]["exp_per_s"] / 1e9:.0f} G exponentials a second in double precision.

The paper's census experiment, raw counts, {census["points"]} R × {census["restarts"]} starts × {
        census["max_steps"]
    } steps,
from the table to the answers:

{table(("", "seconds", "worst shortfall of disclosure, nats"), rows)}
Answers on heart failure differ from PyTorch's CPU by at most {result["largest_difference_from_cpu"]:.1e}.{
        agreement
    }

One step on a batch that stays on the device. The limit is that of a plain step, the larger of the time for the fewest
bytes it must move (two reads of M×N tables an evaluation of G, five passes a step) and that for its exponentials; entries
and shares are of plain steps too. The fused kernels (Triton) apply momentum, take logarithms of the outputs, search for λ
and make the update; the two matrix products are cuBLAS's. Shares are by the wall clock, the host's time included; *The kernels of a step* below has the device's own time, and accelerated steps.

{
        table(
            (
                "K × M",
                "code",
                "runs",
                "ms a step",
                "accelerated",
                "ns an entry",
                "evaluations",
                "of the limit",
                "peak memory, GB",
            ),
            steps,
        )
    }{tail}"""


def proofs(result: dict[str, Any]) -> str:
    """Curves with a proof at every point."""
    head = (
        "",
        "K × M",
        "points",
        "target",
        "largest gap",
        "closed",
        "CPU s",
        "boxes",
        "lines",
        "boxes in proofs",
        "verified in",
    )

    def line(name: str, row: dict[str, Any]) -> tuple[object, ...]:
        n_s, n_x = row["shape"]
        return (
            name, f"{n_s} × {n_x}", row["points"], f"{row['target']:.0e}", f"{row['largest_gap']:.1e}", row["closed"],
            f"{row['cpu_seconds']:.1f}", row["boxes"], row["proved_lines"], row["boxes_in_proofs"], f"{row['verify_seconds']:.2f} s",
        )  # fmt: skip

    shared = [
        (name, f"{row['one_by_one_seconds'] / row['cpu_seconds']:.1f}×")
        for name, row in (result["curves"] | result["tables"]).items()
        if "one_by_one_seconds" in row
    ]
    points = [
        (row["instance"], f"{row['share']:g}", row["solver"], "–" if row["leakage"] is None else f"{row['leakage']:.6f}",
         f"{row['cpu_seconds']:.2f}", f"{row['ratio']:.1f}×")
        for row in result["points"]
    ]  # fmt: skip
    warmed = (
        "Every solver solved a small problem with the same options before its clock started."
        if result.get("warmed")
        else "These times were taken before every kernel was loaded in advance: **the first row of a solver may count "
        "the compiling of its kernel**, as that of AEM does."
    )
    return f"""## 5. Proofs

Whole curves by `solver="global"`. The columns: the target gap in nats, the largest gap left, how many points reached the
target, CPU seconds, boxes opened by branch and bound, proved lines, the boxes in their certificates, and the CPU time in
which plain NumPy verifies them all.

{table(head, (line(name, row) for name, row in result["curves"].items()))}
Random tables of raw counts with empty cells, 10 points from 0.5 to 0.95·H(X):

{table(head, (line(name, row) for name, row in result["tables"].items()))}
The same points solved one by one cost this many times as much:

{table(("", "one by one over trace"), shared)}
A trace shares the components, the perfect privacy, the posteriors, the proved lines and one pass that verifies all
certificates. It cannot share the proof at each point, whose prices are its own. Nor can it share most of the search where
neighbouring points use different posteriors, as they do at the lower end of the curve. On the larger count tables the
first point or two above R0 take most of the time, alone or in a trace.

Single points, with what methods without a proof take and find. AEM has 30 starts of 500 plain steps; SLSQP, where listed,
has 30 starts. {warmed}

{table(("", "R / H(X)", "solver", "leakage", "CPU s", "time over global"), points)}

{machine(result)}"""


def tables(result: dict[str, Any]) -> str:
    """Counting and release at scale."""
    rows = [
        (f"{size['rows']:,}", name, f"{size['rows_per_second'][name] / 1e6:.2f} M", f"{size['ratio'][name]['cpu']:.2f}×",
         f"{size['ratio'][name]['wall']:.2f}×", f"{size['median'][task]['peak_mib']:.0f} MiB")
        for size in result["sizes"]
        for name, task in (("count", "our_count"), ("count with bins", "our_count_bins"),
                           ("release symbols", "our_release"), ("release records", "our_records"))
    ]  # fmt: skip
    aims = [(name, limit, [size for size in result["sizes"] if size["ratio"][name]["cpu"] > limit])
            for name, limit in TABLE_AIMS.items()]  # fmt: skip
    verdicts = [
        (f"{name} within {limit:g}× of bare DuckDB, CPU",
         "met" if not missed else "**missed** at " + ", ".join(
             f"{size['rows']:,} rows ({size['ratio'][name]['cpu']:.2f}×)" for size in missed))
        for name, limit, missed in aims
    ]  # fmt: skip
    peak = max(
        row["peak_mib"]
        for size in result["sizes"]
        for task, row in size["median"].items()
        if task.startswith("our_")
    )
    verdicts.append(
        (
            f"peak memory under {MEMORY_AIM_MIB:,} MiB",
            f"{'met' if peak < MEMORY_AIM_MIB else '**missed**'}: {peak:.0f} MiB",
        )
    )
    growth = result["cpu_growth_per_row"]
    last, first = result["sizes"][-1]["rows"], result["sizes"][0]["rows"]
    return f"""## 6. Tables at scale

A Parquet file of five columns. Each task ran in a process of its own, {result["repeats"]} times, taking turns with bare DuckDB
on the same file: a group-by for counting, a copy for releasing (with secure randomness).

{table(("rows", "task", "rows a second", "CPU over bare DuckDB", "wall over bare DuckDB", "peak memory"), rows)}
{table(("aim", "met?"), verdicts)}
CPU per row at {last:,} rows over that at {first:,}: counting {growth["our_count"]:.2f}, release
{growth["our_release"]:.2f}. 1 is linear growth; less means that a fixed cost is spread over more rows, which is also why
small files miss the aim for counting.

{machine(result)}"""


def versions(result: dict[str, Any]) -> str:
    """Two versions in one run."""
    rows = [
        (name, f"{case['before']:.3f}", f"{case['after']:.3f}", f"{case['ratio']:.2f}×",
         f"{case['quartiles'][0]:.2f} – {case['quartiles'][1]:.2f}", "same" if case["change"] == 0.0 else f"{case['change']:+.0e}")
        for name, case in result["cases"].items()
    ]  # fmt: skip
    return f"""## Before and after

The same work by {result["names"][0]} and by {result["names"][1]}, on one thread: CPU seconds of each, and the later version's over
the earlier one's. The two took turns {result["repeats"]} times in one run, each in a process that had loaded its kernels, and
the quickest of each are compared; the middle half of the ratios of single turns says how far to trust that. The last column is the largest change of a leakage, in nats: less is better.
`python -m benchmarks.versions OLD NEW` measures any two versions like this.

{table(("", "before, s", "after, s", "ratio", "middle half", "leakage"), rows)}
{machine(result)}"""


SECTIONS: dict[str, Callable[[dict[str, Any]], str]] = {
    "step": step, "parts": parts, "quality": quality, "growth": growth, "gpu": gpu, "gpu_profile": profile, "global": proofs, "binary": binary, "tables": tables,
    "large": large, "many": many, "wide": wide, "task": task, "guarded": guarded, "bottleneck": bottleneck, "versions": versions,
}  # fmt: skip


def render() -> str:
    """The page, from whatever results there are."""
    found = {name: harness.load(name) for name in SECTIONS}
    parts = [SECTIONS[name](result) for name, result in found.items() if result is not None]
    return wrapped("\n".join([HEAD, *parts])).rstrip() + "\n"


def write() -> Path:
    """Write the page: under ``docs``, or beside the results where these are elsewhere, as in a quick run."""
    folder = harness.results()
    path = PAGE if folder == harness.RESULTS else folder / PAGE.name
    path.write_text(render(), encoding="utf-8")
    return path


if __name__ == "__main__":
    print(write())

# ruff: noqa: E501 -- the page's own sentences
"""Write docs/benchmarks.md from the JSON under benchmarks/results: no number of its tables is typed by hand."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks import harness

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"

HEAD = """# Benchmarks

The tables of this page are written by `make bench` from the files under `benchmarks/results/`. All
variants of a table ran in one session, taking turns, and the medians of their repeats are compared: trust the ratios
more than the seconds. Times are **CPU time** unless a column says otherwise, because the machines are shared: the wall
clock would measure the neighbours.
"""


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A markdown table."""
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def machine(result: dict[str, Any]) -> str:
    """A sentence on where a result was measured."""
    info = result["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in info["versions"].items())
    return (
        f"Measured on {info['processor']}, {info['cores']} core{'' if info['cores'] == 1 else 's'} with a load of {info['load']} while measuring "
        f"(Python {info['python']}, {versions}).\n"
    )


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

{result["problem"]}: K = {result["n_s"]}, M = {result["n_x"]}, N = {result["n_y"]}; nanoseconds of one thread for one step
and entry of the M×N table. A step finds λ to 1e-13 nats, which took {evaluations["kernel"]:.1f} evaluations of G in the
compiled code (its first guess is where λ is heading) and {evaluations["printed"]:.1f} in the printed one.

{table(("", "ns an entry", "over compiled"), rows)}
With two threads, by the wall clock, the compiled step is {ratios["clean_over_kernel_two_threads"]:.1f}× as fast as clean
NumPy; two threads were {result["two_thread_speedup"]:.2f}× as fast as one under the load above.

The floor is {evaluations["kernel"]:.1f} exponentials an entry and the K·N + N + M logarithms that the mathematics needs, at
the speed of the fastest library here: exp {library["exp"][fastest["exp"]]:.2f} ns ({fastest["exp"]}), log
{library["log"][fastest["log"]]:.2f} ns ({fastest["log"]}); NumPy's take {library["exp"]["numpy"]:.2f} and
{library["log"]["numpy"]:.2f}. What stands between it and the step: each evaluation also multiplies, compares and adds up
three sums an entry (about as much work as the exponential itself, a dozen multiply-adds); the two matrix products with
p(s|x); and the traffic of three M×N tables between the second-level cache and the registers.

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

Both with 30 restarts and one thread. *Plain* is 500 steps of Algorithm 1. *Matched* is accelerated AEM with the smallest of
a few values of `max_steps` whose leakage is at most that of plain AEM (up to 0.1 %); *full* is accelerated AEM with its
default of 500 steps. Medians over seeds; leakages in nats, seconds of CPU.

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
Median of the ratios: {
        ", ".join(f"{name} {ratio:.1f}×" for name, ratio in ratios.items())
    }. Runs that did not get there within {max(row["steps"] for row in result["acceleration"])} steps, {
        missed
    } of {len(result["acceleration"])}, count
with the time of all of those. On heart failure a solve takes less than a hundredth of a second, a quarter of it for drawing the
starts in Python, which acceleration does not shorten. The rules for retiring restarts were chosen among six settings tried on these
two tables, with four of the seeds on heart failure and the one on census, so that the ratios flatter them a little.

What acceleration consists of is described in `privfunnel/solvers/_aem_rules.py`: over-relaxation by the measured curvature,
momentum with a monotone fallback, inexact roots, a ramp of the disclosure, a race of the restarts. Tried and not kept:
annealing the disclosure from above (the runs freeze where they start), warm starts of λ by its trend in the accelerated
step (no fewer evaluations), matching the anchors to the channel between two levels of the ramp (no better than random
ones), dropping vanished outputs during a run (few vanish on census; it is single entries that do). Letting every restart run
to its end instead of retiring most finds the same answers on heart failure in twice the time.

### All methods

One solve each with a limit of {
        result["limit_seconds"]:g} s of wall-clock time where the method has one; compiled code was
warm. A dash: no channel with the asked disclosure.

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
        "## 3. Growth\n\nSeconds a step and run of the compiled plain step on random dense tables. The work is proportional to "
        "M·N·(a few exponentials + 2K multiply-adds), so that M counts twice. Beyond M ≈ 250 the three tables of a run no "
        "longer fit a core's second-level cache, beyond M ≈ 1000 not the third: each evaluation of G then waits for memory, "
        "which is what lifts the exponent above 2.\n\n"
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
        (f"{row['n_s']} × {row['n_x']}", "fused kernels" if row["fused"] else "eager PyTorch", row["runs"], f"{1e3 * row['seconds_a_step']:.2f}", f"{row['ns_an_entry']:.3f}",
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

One plain step on a batch that stays on the device. The limit is the larger of the time for the fewest bytes it must move
(two reads of M×N tables an evaluation of G, five passes a step) and that for its exponentials. The fused kernels (Triton)
search for λ and make the update; the matrix products and the rest are PyTorch's.

{
        table(
            (
                "K × M",
                "code",
                "runs",
                "ms a step",
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
        f"{name}: {row['one_by_one_seconds'] / row['cpu_seconds']:.1f}×"
        for name, row in (result["curves"] | result["tables"]).items()
        if "one_by_one_seconds" in row
    ]
    points = [
        (row["instance"], f"{row['share']:g}", row["solver"], "–" if row["leakage"] is None else f"{row['leakage']:.6f}",
         f"{row['cpu_seconds']:.2f}", f"{row['ratio']:.1f}×")
        for row in result["points"]
    ]  # fmt: skip
    return f"""## 5. Proofs

Whole curves by `solver="global"`, compiled code warm: the target gap in nats, the largest gap left, how many points reached the
target, CPU seconds, boxes opened by branch and bound, proved lines, the boxes in their certificates, and the CPU time in which plain
NumPy verifies them all.

{table(head, (line(name, row) for name, row in result["curves"].items()))}
Random tables of raw counts with empty cells, 10 points from 0.5 to 0.95·H(X):

{table(head, (line(name, row) for name, row in result["tables"].items()))}
The same points solved one by one cost this many times as much: {"; ".join(shared)}. A trace shares the components, the
perfect privacy, the posteriors, the proved lines and one pass that verifies all certificates. What it cannot share is the proof at
each point, whose prices are its own, and most of the search where neighbouring points use different posteriors, as they do at the
lower end of the curve: on the larger count tables the first point or two above R0 take most of the time, alone or in a trace.

Single points, with what methods without a proof take and find (AEM: 30 starts × 500 plain steps; SLSQP, where listed: 30 starts):

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
    growth = result["cpu_growth_per_row"]
    last, first = result["sizes"][-1]["rows"], result["sizes"][0]["rows"]
    return f"""## 6. Tables at scale

A Parquet file of five columns; each task in a process of its own, {result["repeats"]} times, taking turns with bare DuckDB on
the same file: a group-by for counting, a copy for releasing (with secure randomness). Aim: counting within 1.2×, release
within 4×, peak memory under 2 GiB.

{table(("rows", "task", "rows a second", "CPU over bare DuckDB", "wall over bare DuckDB", "peak memory"), rows)}
CPU a row at {last:,} rows over that at {first:,}: counting {growth["our_count"]:.2f}, release {growth["our_release"]:.2f}
(1 is linear growth; less, that a fixed cost of the first rows is spread over more).

{machine(result)}"""


def write() -> Path:
    """Write the page from whatever results there are."""
    sections: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
        ("step", step), ("quality", quality), ("growth", growth), ("gpu", gpu), ("global", proofs), ("tables", tables),
    ]  # fmt: skip
    parts = [HEAD]
    for name, render in sections:
        result = harness.load(name)
        if result is not None:
            parts.append(render(result))
    PAGE.write_text("\n".join(parts), encoding="utf-8")
    return PAGE


if __name__ == "__main__":
    print(write())

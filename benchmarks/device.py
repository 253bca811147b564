# ruff: noqa: E501 -- the page's own sentences
"""The section of the benchmarks page on the kernels of a step on a GPU."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import table

#: Share of the device's limit that a step should reach.
AIM = 0.5

#: What kernels do, by what their names contain; the first that fits counts.
GROUPS = (
    ("_rows", "the search for λ: evaluations of G"),
    ("_bracket", "the search for λ: its next trial"),
    ("_update", "the update"),
    ("_momentum", "the point that momentum leads to"),
    ("_outputs", "logarithms of the outputs, the leakage"),
    ("gem", "matrix products (cuBLAS)"),
    ("_keep", "points of steps that were taken back"),
    ("", "small kernels"),
)


def profile(result: dict[str, Any]) -> str:
    """Where the device spends a step, and how far from its limit that is."""
    steps = [row for row in result["steps"] if row["fused"]]
    kinds = [(row, kind) for row in steps for kind in ("plain", "accelerated")]
    columns = [_grouped(row["kernel_seconds_a_step"][kind]) for row, kind in kinds]
    rows: list[tuple[str, ...]] = [
        (label, *(f"{1e3 * column[label]:.2f}" if label in column else "–" for column in columns))
        for _, label in GROUPS
    ]
    floors = [
        row["floor_seconds"] if kind == "plain" else row["accelerated_floor_seconds"] for row, kind in kinds
    ]
    walls = [
        row["seconds_a_step"] if kind == "plain" else row["seconds_an_accelerated_step"]
        for row, kind in kinds
    ]
    busy = [sum(column.values()) for column in columns]
    rows += [
        ("**together: the device's time**", *(f"{1e3 * value:.2f}" for value in busy)),
        ("by the wall clock", *(f"{1e3 * value:.2f}" for value in walls)),
        ("limit", *(f"{1e3 * value:.2f}" for value in floors)),
        ("**of the limit, device's time**", *(f"**{100 * floor / value:.0f} %**" for floor, value in zip(floors, busy, strict=True))),
        ("of the limit, wall clock", *(f"{100 * floor / value:.0f} %" for floor, value in zip(floors, walls, strict=True))),
    ]  # fmt: skip
    head = ("ms a step", *(f"{row['n_s']} × {row['n_x']} {kind}" for row, kind in kinds))
    names = head[1:]
    reached = {
        clock: ", ".join(name for name, floor, value in zip(names, floors, values, strict=True) if floor >= AIM * value) or "none"
        for clock, values in (("device", busy), ("wall", walls))
    }  # fmt: skip
    used = " and ".join(f"{row['accelerated_evaluations']:.1f}" for row in steps)
    return f"""### The kernels of a step

A second run of `benchmarks/bench_gpu.py` on one {result["device"]}, with the fused kernels under PyTorch's profiler. On the small table
the wall clock depends on the host, which launches some twenty kernels a plain step, more an accelerated one, and waits for the end of
each search: compare the table above. An accelerated step has a limit of its own here: two reads of M×N tables
an evaluation of G ({used} a run, since roots are inexact), seven passes a step, and one more exponential.

{table(head, rows)}
The aim was half of the limit. Those that reach it in the device's time: {reached["device"]}; by the wall clock: {reached["wall"]}. Beyond the passes that
the limit counts, an accelerated step has those of kernels that hand tables on to one another: the point of
momentum is written as log u and as u, and the product with p(s|x) is a table of its own. Of the points only those of runs whose step was taken back are copied; the
accelerated steps of the table above were measured before that, with all points copied.
"""


def _grouped(kernels: dict[str, float]) -> dict[str, float]:
    """Seconds of a step by what kernels do."""
    found: dict[str, float] = {}
    for name, seconds in kernels.items():
        label = next(label for part, label in GROUPS if part in name)
        found[label] = found.get(label, 0.0) + seconds
    return found

# ruff: noqa: E501 -- the page's own sentences
"""The section of the benchmarks page on the parts of a step of AEM."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import machine, table


def parts(result: dict[str, Any]) -> str:
    """Why a step is not closer to its exponentials."""
    cost, evaluations = result["ns_an_entry"], result["evaluations"]
    exponentials, sums = cost["exponentials"], cost["sums of an evaluation"]
    whole = evaluations * cost["evaluation"] + cost["outputs"] + cost["exponents"]
    ideal = evaluations * (exponentials + sums) + cost["outputs"] + cost["exponents"]
    floor = evaluations * exponentials
    rows = [
        ("exponentials alone", f"{exponentials:.2f}", f"{evaluations:.1f}", f"{floor:.2f}"),
        ("an evaluation of G: exponent, range check, exponential, four sums", f"{cost['evaluation']:.2f}", f"{evaluations:.1f}",
         f"{evaluations * cost['evaluation']:.2f}"),
        ("its sums alone, without exponentials", f"{sums:.2f}", f"{evaluations:.1f}", f"{evaluations * sums:.2f}"),
        ("p(s,y), its logarithms, the leakage", f"{cost['outputs']:.2f}", "1", f"{cost['outputs']:.2f}"),
        ("the next exponents", f"{cost['exponents']:.2f}", "1", f"{cost['exponents']:.2f}"),
    ]  # fmt: skip
    return f"""## The parts of a step

Why a step is not closer to the floor of its exponentials: one compiled plain step on the census table taken apart.
Nanoseconds (ns) of one thread for an entry of the M×N table. The accelerated step has the same parts, and one more exponential
and pass where momentum moves its starting point.

{table(("part", "ns", "times a step", "ns a step"), rows)}
Together {whole:.2f} ns, {whole / floor:.1f} times the exponentials of the same run. If an evaluation cost no more than its exponentials and its
sums one after the other, the step would take {ideal:.2f} ns, {ideal / floor:.1f} times. Twice the exponentials would need that and the other two
parts in {2.0 * floor - evaluations * (exponentials + sums):.2f} ns instead of {cost["outputs"] + cost["exponents"]:.2f}, or fewer evaluations of G, of which Halley's method with a guess of where λ is heading
already takes {evaluations:.1f} only. That has not been reached.

{machine(result)}"""

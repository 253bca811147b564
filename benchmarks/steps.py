# ruff: noqa: E501 -- the page's own sentences
"""The section of the benchmarks page on the parts of a step of AEM."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import machine, table


def parts(result: dict[str, Any]) -> str:
    """Why a step is not closer to its exponentials."""
    cost, evaluations, renewals = result["ns_an_entry"], result["evaluations"], result["renewals"]
    exponentials, others = cost["exponentials"], cost["outputs"] + cost["exponents"]
    full = evaluations - renewals
    whole = full * cost["evaluation"] + renewals * cost["renewal"] + others
    before = evaluations * cost["evaluation"] + others
    floor = evaluations * exponentials
    rows = [
        ("exponentials alone", f"{exponentials:.2f}", f"{evaluations:.1f}", f"{floor:.2f}"),
        ("an evaluation of G: exponent, range check, exponential, four sums", f"{cost['evaluation']:.2f}", f"{full:.1f}",
         f"{full * cost['evaluation']:.2f}"),
        ("one without exponentials: a polynomial of degree 7, five sums", f"{cost['renewal']:.2f}", f"{renewals:.1f}",
         f"{renewals * cost['renewal']:.2f}"),
        ("four sums alone, without either", f"{cost['sums of an evaluation']:.2f}", "–", "–"),
        ("p(s,y), its logarithms, the leakage", f"{cost['outputs']:.2f}", "1", f"{cost['outputs']:.2f}"),
        ("the next exponents", f"{cost['exponents']:.2f}", "1", f"{cost['exponents']:.2f}"),
    ]  # fmt: skip
    reached = "That is the aim" if whole <= 2.0 * floor else "The aim was twice: it is not reached"
    return f"""## The parts of a step

How close a step is to the floor of its exponentials, one for each evaluation of G: one compiled plain step on the census table
taken apart. Nanoseconds (ns) of one thread for an entry of the M×N table. The accelerated step has the same parts, and one more
exponential and pass where momentum moves its starting point; its λ moves further from step to step, so that fewer of its
evaluations can do without exponentials.

{table(("part", "ns", "times a step", "ns a step"), rows)}
Together {whole:.2f} ns, {whole / floor:.1f} times the exponentials; with exponentials in every evaluation it would be {before:.2f} ns, {before / floor:.1f} times. {reached}.
What is left beside the evaluations, {others:.2f} ns, is the traffic of three tables and the products with p(s|x).

{machine(result)}"""

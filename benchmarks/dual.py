# ruff: noqa: E501 -- the page's own sentences
"""The section of the benchmarks page on the information bottleneck."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import machine, table

#: The values of Blahut-Arimoto should be had to SAME nats in at most AIM of its time.
AIM, SAME = 0.5, 1e-8


def bottleneck(result: dict[str, Any]) -> str:
    """ABP against Blahut-Arimoto."""
    points = result["points"]
    rows = [
        (f"{row['share']:g}", f"{row['seconds']['blahut_arimoto']:.2f}", f"{row['seconds']['abp']:.2f}",
         f"{row['seconds']['proved']:.2f}", f"{row['blahut_arimoto']:.9f}", f"{row['abp']:.9f}", f"{row['proved']:.9f}",
         f"{row['upper_bound']:.9f}", row["boxes"])
        for row in points
    ]  # fmt: skip
    quickest = max(row["ratio"] for row in points)
    proving = max(row["seconds"]["proved"] / row["seconds"]["blahut_arimoto"] for row in points)
    still = max(row["difference"] for row in points)
    off = max(abs(row["abp"] - row["blahut_arimoto"]) for row in points)
    met = "met" if quickest <= AIM and off <= SAME else "**missed**"
    return f"""## The bottleneck

{result["instance"]}, most I(S;Y) in nats for I(X;Y) ≤ R: CPU seconds of Blahut-Arimoto, which searches the multiplier of
the rate, of ABP, which finds it in every step, and of `bottleneck.prove`, which lets ABP go on from where the search for a
proof finds an output that is missing. One start each, X itself.

{table(("R / H(X)", "Blahut-Arimoto, s", "ABP, s", "proved, s", "Blahut-Arimoto", "ABP", "proved point", "proved bound", "boxes"), rows)}
The aim was the values of Blahut-Arimoto to {SAME:.0e} nats in at most {100 * AIM:.0f} % of its time: {met}. ABP differs from it by at
most {off:.0e} and takes at most {100 * quickest:.0f} %, with the proof at most {100 * proving:.0f} %. Where ABP ends Blahut-Arimoto stands still: going on
with its multiplier changes the value by {still:.0e}.

{machine(result)}"""

# ruff: noqa: E501 -- the page's own sentences
"""The section of the benchmarks page on the parts of a step of AEM."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import machine, table

#: What is done, what it costs (ns an entry), and how often a step does it.
Part = tuple[str, float, float]

#: What a step should cost at most, as a multiple of its exponentials.
AIM = 2.0


def parts(result: dict[str, Any]) -> str:
    """Why a step is not closer to its exponentials."""
    cost, times = result["ns_an_entry"], result["times"]
    plain = [
        *_search(cost, times["plain"]),
        ("p(s,y), its logarithms, the leakage", cost["outputs"], times["plain"]["find_outputs"]),
        ("the next exponents", cost["exponents"], times["plain"]["find_outputs"]),
    ]
    own = times["accelerated"]
    passes = [
        ("the point that momentum leads to: exponent, range check, exponential, sum", cost["shift"], own["shift"]),
        *_search(cost, own),
    ]  # fmt: skip
    others = [
        ("p(s,y), its logarithms, the leakage: there, and at the new point", cost["outputs"], own["find_outputs"]),
        ("the exponents of the update from there", cost["accelerated exponents"], own["exponents"]),
        ("the new point written, its residual and divergence", cost["write"], own["write"]),
        ("how far the leakage is from its linearisation", cost["excess"], own["excess"]),
    ]  # fmt: skip
    return f"""## The parts of a step

How close a step is to the floor of its exponentials. Compiled steps on the census table taken apart. Nanoseconds (ns) of one
thread for an entry of the M×N table, each part alone, the quickest of many turns, without what a call from Python costs. The
floor is an exponential for each evaluation of G, also for those that do without, and one where momentum moves the point.

### Plain

{_account(plain, cost, times["plain"]["moved"], "plain")}
The sums of an evaluation alone take {cost["sums of an evaluation"]:.2f} ns, its exponential {cost["exponentials"]:.2f}; the rest is the range check
and the traffic of three tables. Of the exponentials that are computed, {times["plain"]["evaluate"]:.1f} an entry, the step takes {cost["plain step"] / times["plain"]["evaluate"] / cost["exponentials"]:.1f} times the time.

### Accelerated

{_account([*passes, *others], cost, own["moved"] + own["shift"], "accelerated")}
{_what_would_have_to_go(passes, others, cost, own)}

### Starts without numba

{_starts(result["starts"])}
{machine(result)}"""


def _search(cost: dict[str, float], times: dict[str, float]) -> list[Part]:
    """The search for λ."""
    return [
        ("evaluations of G: exponent, range check, exponential, four sums", cost["evaluation"], times["evaluate"]),
        ("evaluations without exponentials: a polynomial of degree 7, five sums", cost["renewal"], times["renew"]),
    ]  # fmt: skip


def _sum(these: list[Part]) -> float:
    """What parts cost a step together, ns an entry."""
    return sum(ns * often for _, ns, often in these)


def _account(these: list[Part], cost: dict[str, float], exponentials: float, kind: str) -> str:
    """The table of a step's parts, and how far their sum and the whole step are from the floor."""
    floor, whole = exponentials * cost["exponentials"], cost[f"{kind} step"]
    together = _sum(these)
    rows = [
        (name, f"{ns:.2f}", f"{often:.1f}", f"{ns * often:.2f}", f"{ns * often / floor:.2f}")
        for name, ns, often in these
    ]
    rows += [
        ("**together**", "", "", f"{together:.2f}", f"{together / floor:.2f}"),
        (f"**{kind} steps as they run**", "", "1", f"{whole:.2f}", f"{whole / floor:.2f}"),
        ("**floor: exponentials alone**", f"{cost['exponentials']:.2f}", f"{exponentials:.1f}", f"{floor:.2f}", "1"),
    ]  # fmt: skip
    met = "met" if whole <= AIM * floor else "missed"
    return f"""{table(("part", "ns", "times a step", "ns a step", "of the floor"), rows)}
The aim was {AIM:g} times the floor: {met}, at {whole / floor:.2f} times."""


def _what_would_have_to_go(
    passes: list[Part], others: list[Part], cost: dict[str, float], own: dict[str, float]
) -> str:
    """Which parts of an accelerated step the aim leaves no room for: of ``passes`` with exponentials, and of ``others``."""
    exponential, whole = cost["exponentials"], cost["accelerated step"]
    floor = (own["moved"] + own["shift"]) * exponential
    over, excess = _sum(passes) - floor, whole - AIM * floor
    name, largest = max(((name, ns * often) for name, ns, often in others), key=lambda part: part[1])
    enough = "would do if it vanished" if largest >= excess else "would not do even if it vanished"
    momentum = (own["find_outputs"] - 1.0) * cost["outputs"] + cost["write"] + cost["excess"]
    return f"""What would have to vanish, {excess:.2f} ns in all:

- Passes with exponentials, or with the polynomial in their place, take {over:.2f} ns more than exponentials alone: an evaluation needs
  its sums ({cost["sums of an evaluation"]:.2f} ns by themselves), its range check, and three tables from the second-level cache, where the copy of one takes
  {cost["copy"]:.2f} ns. To reach the aim, {100 * excess / over:.0f} % of that would have to go.
- The other parts take {_sum(others):.2f} ns. The largest, *{name}*, {largest:.2f} ns, {enough}.
- Momentum and the steps that can be taken back cost {momentum:.2f} ns that a plain step does not have, besides an exponential: the outputs
  of a second point, and the new point written out and judged. They pay by fewer steps: see *Time to quality*.
- λη moves further from step to step than λ of plain steps, so that {own["renew"]:.1f} of {own["moved"]:.1f} evaluations do without exponentials. Of the exponentials that are computed, {own["evaluate"] + own["shift"]:.1f} an entry, the step takes {whole / (own["evaluate"] + own["shift"]) / exponential:.1f} times the time."""


def _starts(seconds: dict[str, dict[str, float]]) -> str:
    """What the starts cost where numba is missing."""
    rows = [
        (name, f"{1e3 * of['with numba']:.2f}", f"{1e3 * of['without']:.2f}", f"{of['without'] / of['with numba']:.1f}×")
        for name, of in seconds.items()
    ]  # fmt: skip
    return f"""30 starts of AEM drawn and lifted to R = 0.6·H(X), milliseconds of CPU. Without numba the weights of all anchors are found at once,
with arrays.

{table(("instance", "with numba, ms", "without, ms", "ratio"), rows)}"""

"""Curves and solutions turned into what a page shows: pictures, figures and sentences.

Nats come in; the page turns them into bits where a person reads. Used by the report and by the explorer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from privfunnel.curve import Curve
from privfunnel.guessing import Guess
from privfunnel.measures import Array, to_bits
from privfunnel.mechanism import symbol_names
from privfunnel.report import heat
from privfunnel.report.axes import Axis
from privfunnel.report.chart import Mark, Picture, Series, figure
from privfunnel.report.meaning import Meaning, explain
from privfunnel.solution import Solution, Status

GRID = 120  # intervals of the drawn lower bound
ZERO = 1e-9  # what rounding leaves of nothing
SHOWN = 5e-4  # a change of an attacker's accuracy below this does not show in the table


def picture(
    curve: Curve,
    *,
    free_disclosure: float | None = None,
    chosen: Solution | None = None,
    others: Sequence[Series] = (),
) -> Picture:
    """Collect what the chart draws of a curve."""
    problem = curve.problem
    return Picture(
        disclosure_ceiling=problem.disclosure_ceiling,
        leakage_ceiling=problem.leakage_ceiling,
        h_x_given_s=problem.h_x_given_s,
        marks=tuple(
            Mark(s.disclosure, s.leakage, s.lower_bound, status_text(s.status)) for s in curve.solutions
        ),
        proved=proved_line(curve),
        free_disclosure=free_disclosure,
        chosen=None if chosen is None else (chosen.disclosure, chosen.leakage),
        others=others,
    )


def proved_line(curve: Curve) -> tuple[tuple[float, float], ...]:
    """Return the proved lower bound over the whole range, as a polyline in nats; empty where the closed form is all."""
    problem = curve.problem
    at = np.union1d(np.linspace(0.0, problem.disclosure_ceiling, GRID + 1), curve.disclosure)
    bound = curve.proved(at)
    if not (bound > problem.lower_bound(at) + ZERO).any():
        return ()
    return tuple((float(r), float(b)) for r, b in zip(at, bound, strict=True))


def status_text(status: Status) -> str:
    """Return a status in a word or two."""
    words = {
        Status.OPTIMAL: "proved optimal",
        Status.CONVERGED: "stationary point",
        Status.FEASIBLE: "achieved, not proved best",
    }
    return words.get(status, status.value.replace("_", " "))


def proof_text(solution: Solution) -> str:
    """Return what proves the lower bound."""
    return (
        "leakage is never negative" if solution.bound_source == "zero" else f"proof: {solution.bound_source}"
    )


def curve_note(curve: Curve) -> str:
    """Say in a sentence how good the curve is."""
    proved = sum(s.status is Status.OPTIMAL for s in curve.solutions)
    worst = max((s.gap for s in curve.solutions), default=0.0)
    whole = "" if curve.complete else "The run was stopped: this is what it had found. "
    return (
        f"{whole}{proved} of {len(curve.solutions)} points proved optimal; "
        f"no point is more than {to_bits(worst):.2g} bits above what is proved possible. "
        f"Solver {curve.solver}, seed {curve.seed}."
    )


def curve_summary(curve: Curve, public: Axis) -> dict[str, Any]:
    """Return the finished curve for the explorer's page."""
    problem = curve.problem
    free = problem.free_disclosure
    drawn = picture(curve, free_disclosure=free)
    groups = public.levels(0) if len(public.names) > 1 and len(public) > 24 else ()
    return {
        "figure": figure(drawn),
        "note": curve_note(curve),
        "disclosure_ceiling": problem.disclosure_ceiling,
        "leakage_ceiling": problem.leakage_ceiling,
        "free_disclosure": free,
        "suggested": min(
            free if free > 0.0 else 0.5 * problem.disclosure_ceiling, float(curve.disclosure[-1])
        ),
        "group_name": public.names[0],
        "groups": list(groups),
    }


def point(
    solution: Solution, private: Axis, public: Axis, *, width: int = 520, group: str = ""
) -> dict[str, Any]:
    """Return everything the page says about one solution."""
    problem = solution.problem
    meaning = explain(problem, solution.channel, private, public)
    return {
        "disclosure": solution.disclosure,
        "disclosure_share": share(solution.disclosure, problem.disclosure_ceiling, 1.0),
        "leakage": solution.leakage,
        "leakage_share": share(solution.leakage, problem.leakage_ceiling, 0.0),
        "lower_bound": solution.lower_bound,
        "bound_source": proof_text(solution),
        "gap": solution.gap,
        "status": solution.status.value,
        "advice": status_text(solution.status),
        "words": in_words(solution, meaning),
        "guesses": [vars(g) for g in meaning.guesses],
        "kept": [{**vars(k), "share": k.share} for k in meaning.kept],
        "worst": worst_case(meaning, private),
        "heat": heat_maps(solution, public, width=width, group=group),
    }


def bits(nats: float) -> str:
    """Return an amount of information as people read it: ``0.0123 bits``, or less than the smallest number shown."""
    value = to_bits(nats)
    return "less than 0.0001 bits" if ZERO < value < 0.5e-4 else f"{value:.4f} bits"


def share(part: float, whole: float, empty: float) -> float:
    """Return part / whole, or ``empty`` where the whole is nothing."""
    return part / whole if whole > 0.0 else empty


def percent(value: float) -> str:
    """Return a share as people read it: ``64.9 %``."""
    return "less than 0.1 %" if ZERO < value < 5e-4 else f"{100 * value:.1f} %"


def in_words(solution: Solution, meaning: Meaning) -> str:
    """Say in two sentences what a point gives and costs."""
    problem = solution.problem
    kept = share(meaning.disclosure, problem.disclosure_ceiling, 1.0)
    first = f"This release keeps {percent(kept)} of what the public columns say"
    if meaning.leakage <= ZERO:
        first += " and tells nothing about the private ones."
    else:
        first += (
            f" and leaks {bits(meaning.leakage)} about the private ones, "
            f"{percent(share(meaning.leakage, problem.leakage_ceiling, 0.0))} of what the original data leaks."
        )
    largest = max(meaning.guesses, key=lambda g: g.after - g.before)
    return f"{first} {guess_words(largest)}"


def guess_words(guess: Guess) -> str:
    """Say in a sentence what an attacker gains on the private attribute where the gain is largest."""
    gain = guess.after - guess.before
    if gain < ZERO:
        return (
            "No private column becomes easier to guess: the best guess stays what it was without the release."
        )
    if gain < SHOWN:
        return "No private column becomes noticeably easier to guess: less than 0.1 % more guesses are right."
    what = "all private columns together" if guess.name == "all together" else guess.name
    return (
        f"An attacker who guesses {what} from the release is right {percent(guess.after)} of the time "
        f"({percent(guess.before)} without it; {percent(guess.original)} from the original data)."
    )


def worst_case(meaning: Meaning, private: Axis) -> list[dict[str, str]]:
    """Return the average and the worst-case measures side by side: name, value and what it says."""
    s, _, p_y = meaning.most_telling
    who = ", ".join(f"{n} = {v}" for n, v in zip(private.names, private.values[s], strict=True))
    factor = math.exp(meaning.maximal_leakage)
    epsilon = meaning.epsilon
    return [
        {
            "name": "Average leakage I(S;Y)",
            "value": bits(meaning.leakage),
            "words": "what the curve shows: the mean over all released symbols",
        },
        {
            "name": "Maximal leakage",
            "value": bits(meaning.maximal_leakage),
            "words": (
                "no question about the private values becomes easier to guess"
                if factor < 1.0 + ZERO
                else f"no question about the private values becomes more than {factor:.4g} times as easy to guess"
            ),
        },
        {
            "name": "Largest lift",
            "value": f"× {meaning.max_lift:.3g}",
            "words": (
                "no symbol changes any belief"
                if meaning.max_lift < 1.0 + ZERO
                else f"one symbol, released {percent(p_y)} of the time, makes {who} that much more likely"
            ),
        },
        {
            "name": "Local information privacy ε",
            "value": "∞" if math.isinf(epsilon) else f"{epsilon if epsilon > ZERO else 0.0:.3g}",
            "words": (
                "some symbol rules a private value out"
                if math.isinf(epsilon)
                else "no belief changes by more than the factor exp(ε), up or down"
            ),
        },
    ]


def heat_maps(solution: Solution, public: Axis, *, width: int, group: str = "") -> str:
    """Draw p(y|x) and p(x|y), for all public symbols or for one value of the first attribute."""
    used = np.flatnonzero(solution.p_y > 0.0)
    names = symbol_names(solution.channel.shape[1])
    rows = public.order
    columns = used[heat.column_order(solution.p_x_given_y[:, used], rows)]
    if group:
        rows = rows[[public.values[int(i)][0] == group for i in rows]]
        columns = columns[solution.channel[np.ix_(rows, columns)].sum(axis=0) > 0.0]
    axis = public.take(rows.tolist())
    labels = tuple(names[j] for j in columns)

    def one(title: str, matrix: Array) -> str:
        return heat.draw(heat.Heat(title, matrix[np.ix_(rows, columns)], axis, labels), width=width)

    return one("p(y|x): what is released", solution.channel) + one(
        "p(x|y): what a reader infers", solution.p_x_given_y
    )

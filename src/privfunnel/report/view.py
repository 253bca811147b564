"""Curves and solutions turned into what a page shows: pictures, figures and sentences.

Nats come in; where a person reads, there are bits, or nats where the person has chosen them. Used by the report and by
the explorer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privfunnel.audit import PopulationBand
from privfunnel.certificate.answer import Status
from privfunnel.infra.storage import Document
from privfunnel.measures import Array, nats_per
from privfunnel.model.question import FEASIBILITY, Quantity
from privfunnel.release.guesses import Guess
from privfunnel.release.mechanism import symbol_names
from privfunnel.report import heat
from privfunnel.report.axes import Axis
from privfunnel.report.chart import Mark, Picture, Series, figure
from privfunnel.report.meaning import Meaning, explain
from privfunnel.report.rounding import UNTOLD, ZERO, Exact, Numbers
from privfunnel.report.scale import Scale
from privfunnel.solving.curve import Curve
from privfunnel.solving.ends import closed_form
from privfunnel.solving.free_disclosure import free_disclosure, free_words
from privfunnel.solving.solution import Solution

GRID = 120  # intervals of the drawn lower bound
EXACT = Exact()
SAME = 1e-7  # a ratio of probabilities that differs less from 1 is rounding, which rare outputs make large
SHOWN = 5e-4  # a change of an attacker's accuracy below this does not show in the table


def picture(
    curve: Curve,
    *,
    free_disclosure: float | None = None,
    chosen: Solution | None = None,
    others: Sequence[Series] = (),
    population: PopulationBand | None = None,
    units: str = "bits",
) -> Picture:
    """Collect what the chart draws of a curve, and of people like those of its table where they were looked at."""
    problem, scale = curve.problem, Scale.of_curve(curve)
    return Picture(
        disclosure_ceiling=ceiling(curve),
        leakage_ceiling=scale.ceiling,
        h_x_given_s=problem.h_x_given_s,
        marks=tuple(
            Mark(place(curve, s), s.leakage, s.lower_bound, status_text(s.status)) for s in curve.solutions
        ),
        proved=proved_line(curve),
        free_disclosure=free_disclosure,
        chosen=None if chosen is None else (place(curve, chosen), chosen.leakage),
        others=others,
        units=units,
        guarded=not curve.guards.plain,
        along=curve.along[0],
        leakage=scale.axis,
        information=scale.information,
        achieved=achieved_line(curve),
        **({} if population is None else people_lines(population, problem.leakage_ceiling)),
    )


def place(curve: Curve, solution: Solution) -> float:
    """Return where a solution lies along a curve, its disclosure or its utility, in nats."""
    return solution.values.of(curve.axis)


def ceiling(curve: Curve) -> float:
    """Return the end of the axis that a curve goes along: H(X) or I(U;X), in nats, or its largest distortion."""
    return curve.most if curve.axis is Quantity.DISTORTION else curve.question.whole


def free_utility(curve: Curve) -> float:
    """Return the most utility of the curve's points that leak nothing, in nats."""
    told = zip(curve.utility, curve.leakage, strict=True)
    return max((float(kept) for kept, leaked in told if leaked <= ZERO), default=0.0)


def free_of(curve: Curve) -> float | None:
    """Return the most of a curve's axis without leakage, in nats; None with guards, where it is not drawn."""
    if not curve.guards.plain:
        return None
    return free_utility(curve) if curve.axis is Quantity.UTILITY else free_disclosure(curve.problem)


def people_lines(found: PopulationBand, leakage_ceiling: float) -> Document:
    """Return what a picture draws of people like those of a table that tells so many nats."""

    def line(leakage: Array, where: NDArray[np.bool_]) -> tuple[tuple[float, float], ...]:
        return tuple(
            (float(r), float(v)) for r, v in zip(found.disclosure[where], leakage[where], strict=True)
        )

    proved = found.proved(leakage_ceiling)
    some = bool(proved[found.disclosure > 0.0].any())
    return {
        "population": line(found.leakage, np.ones_like(proved)),
        "population_most": line(found.upper, proved) if some else (),
        "confidence": found.confidence,
    }


def proved_line(curve: Curve) -> tuple[tuple[float, float], ...]:
    """Return the proved lower bound over the whole range, as a polyline in nats; empty where the closed form is all."""
    problem = curve.problem
    low = curve.place.min() if curve.axis is Quantity.DISTORTION else 0.0
    at = np.union1d(np.linspace(low, curve.most, GRID + 1), curve.place)
    bound = curve.proved(at)
    if (
        curve.axis is Quantity.DISCLOSURE
        and not (bound > closed_form(problem, curve.guards, at) + ZERO).any()
    ):
        return ()
    return tuple((float(r), float(b)) for r, b in zip(at, bound, strict=True))


def achieved_line(curve: Curve) -> tuple[tuple[float, float], ...]:
    """Return what the points achieve by time sharing, as a polyline, where lines between them are not straight."""
    if curve.guards.plain or not curve.guards.measure.worst_value or not curve.solutions:
        return ()
    own = [place(curve, s) for s in curve.solutions]
    at = np.union1d(np.linspace(0.0, max(own), GRID + 1), own)
    return tuple((float(r), float(v)) for r, v in zip(at, curve.achieved(at), strict=True))


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


def curve_note(curve: Curve, units: str = "bits") -> str:
    """Say in a sentence how good the curve is."""
    proved = sum(s.status is Status.OPTIMAL for s in curve.solutions)
    worst = max((s.gap for s in curve.solutions), default=0.0)
    above = f"{worst / nats_per(units):.2g} {units}" if curve.unit else f"{worst:.2g}"
    most = f"no point is more than {above} above" if worst > ZERO else "every point is at"
    whole = "" if curve.complete else "The run was stopped: this is what it had found. "
    return (
        f"{whole}{proved} of {len(curve.solutions)} points proved optimal; {most} what is proved possible. "
        f"Solver {curve.solver}, seed {curve.seed}."
    )


def curve_summary(
    curve: Curve, public: Axis, units: str = "bits", population: PopulationBand | None = None
) -> Document:
    """Return the finished curve for the explorer's page, with people like those of its table where they are known."""
    problem = curve.problem
    guarded = not curve.guards.plain
    for_task = curve.axis is Quantity.UTILITY
    free = free_utility(curve) if for_task else 0.0 if guarded else free_disclosure(problem)
    end = ceiling(curve)
    drawn = picture(curve, free_disclosure=None if guarded else free, population=population, units=units)
    groups = public.levels(0) if len(public.names) > 1 and len(public) > 24 else ()
    return {
        "figure": figure(drawn),
        "note": curve_note(curve, units),
        "along": curve.along[0],
        "task": " and ".join(problem.tasks.names) if problem.tasks is not None else "",
        "disclosure_ceiling": end,
        "leakage_ceiling": drawn.leakage_ceiling,
        "information": drawn.information,
        "free_disclosure": free,
        "suggested": min(free if free > 0.0 else 0.5 * end, place(curve, curve.solutions[-1])),
        "group_name": public.names[0],
        "groups": list(groups),
    }


def point(
    solution: Solution,
    private: Axis,
    public: Axis,
    *,
    width: int = 520,
    group: str = "",
    units: str = "bits",
) -> Document:
    """Return everything the page says about one solution; without heat maps where ``width`` is 0."""
    problem = solution.problem
    numbers = Exact(units)
    meaning = explain(problem, solution.channel, private, public)
    kept = share(solution.disclosure, problem.disclosure_ceiling, 1.0)
    # Sentences are about a reader who knows nothing, and about mutual information.
    leaked = share(meaning.leakage, problem.leakage_ceiling, 0.0)
    scale = Scale.of(problem, solution.guards)
    said = free_words(solution), in_words(kept, leaked, meaning, numbers), column_words(kept, meaning)
    return {
        "disclosure": solution.disclosure,
        "disclosure_share": kept,
        "leakage": solution.leakage,
        "leakage_share": scale.share(solution.leakage),
        "leakage_whole": scale.whole,
        "leakage_name": "" if scale.usual else scale.name,
        "lower_bound": solution.lower_bound,
        "nothing_leaks": solution.leakage <= FEASIBILITY,
        "bound_known": solution.lower_bound > FEASIBILITY,
        "bound_source": proof_text(solution),
        "gap": solution.gap,
        "status": solution.status.value,
        "advice": status_text(solution.status),
        "words": " ".join(filter(None, said)),
        "guesses": [vars(g) for g in meaning.guesses],
        "kept": [{**vars(k), "share": k.share} for k in meaning.kept],
        "worst": worst_case(meaning, private, numbers, drawn=solution.guards.plain),
        "heat": heat_maps(solution, public, width=width, group=group) if width else "",
    }


def share(part: float, whole: float, empty: float) -> float:
    """Return part / whole, or ``empty`` where the whole is nothing."""
    return part / whole if whole > 0.0 else empty


def in_words(kept: float, leaked: float, meaning: Meaning, numbers: Numbers = EXACT) -> str:
    """Say in a few sentences what a point gives and costs.

    Args:
        kept: I(X;Y)/H(X); ``leaked`` is I(S;Y)/I(S;X).
        leaked: Share of the leakage of the original data.
        meaning: What the release does.
        numbers: How numbers are told.
    """
    first = f"This release keeps {numbers.percent(kept)} of what the public columns say"
    if meaning.leakage <= ZERO:
        first += " and tells nothing about the private ones."
    else:
        first += (
            f" and leaks {numbers.amount(meaning.leakage)} about the private ones, "
            f"{numbers.percent(leaked)} of what the original data leaks."
        )
    largest = max(meaning.guesses, key=lambda g: g.after - g.before)
    return f"{first} {guess_words(largest, meaning.max_lift, numbers, meaning.most_telling[2])}"


def guess_words(guess: Guess, max_lift: float, numbers: Numbers = EXACT, share: float = 1.0) -> str:
    """Say in a sentence what an attacker gains on the private attribute where the gain is largest.

    A best guess that stays the same is no comfort where a rare value becomes several times as likely, so the largest
    lift has its say; it is told as coarsely as the ``share`` of the rows asks for that it is about.
    """
    gain = guess.after - guess.before
    if gain < SHOWN and max_lift < 1.0 + SHOWN:
        return (
            "No private column becomes easier to guess: the best guess stays what it was without the release."
        )
    lift = numbers.of(share).factor(max_lift)
    if gain < SHOWN and lift == UNTOLD:
        return (
            "The best guess of each private column is right no more often than without the release; values that very "
            "few rows get may tell more."
        )
    if gain < SHOWN:
        return (
            "The best guess of each private column is right no more often than without the release, but some released "
            f"values make a private value up to {lift} times as likely as it was."
        )
    what = "all private columns together" if guess.name == "all together" else guess.name
    return (
        f"An attacker who guesses {what} from the release is right {numbers.percent(guess.after)} of the time "
        f"({numbers.percent(guess.before)} without it; {numbers.percent(guess.original)} from the original data)."
    )


def column_words(kept: float, meaning: Meaning, numbers: Numbers = EXACT) -> str:
    """Say what is kept of all public columns together beside what is kept of each, and why the two differ.

    Args:
        kept: I(X;Y)/H(X).
        meaning: What the release does.
        numbers: How numbers are told.
    """
    shares = [column.share for column in meaning.kept if column.entropy > 0.0]
    if len(shares) < 2:
        return ""
    low, high = numbers.percent(min(shares)), numbers.percent(max(shares))
    each = low if low == high else f"{low} to {high}"
    said = f"Of the public columns together {numbers.percent(kept)} is kept, of each column by itself {each}."
    if abs(kept - min(shares)) < 0.01 and abs(kept - max(shares)) < 0.01:
        return said
    return (
        f"{said} The two differ because what is held back is often one question about a combination of columns: it "
        "takes little from the whole and leaves several columns in doubt. For a table about one column, its own share "
        "counts."
    )


def worst_case(
    meaning: Meaning, private: Axis, numbers: Numbers = EXACT, *, named: bool = True, drawn: bool = True
) -> list[dict[str, str]]:
    """Return the average and the worst-case measures side by side: name, value and what it says.

    The private value of the largest lift is told where ``named``; it may be one that few people have. The average is
    what the curve shows where ``drawn``; guarded curves are of the largest leakage, or of another measure.
    """
    s, _, p_y = meaning.most_telling
    told = ", ".join(f"{n} = {v}" for n, v in zip(private.names, private.values[s], strict=True))
    who = told if named else "a private value"
    factor = math.exp(meaning.maximal_leakage)
    lift = numbers.of(p_y).factor(meaning.max_lift)
    epsilon = meaning.epsilon
    changeless = meaning.max_lift < 1.0 + SAME
    told_epsilon = numbers.of(meaning.rarest).log_factor(epsilon if epsilon > SAME else 0.0)
    return [
        {
            "name": "Average leakage I(S;Y)",
            "value": numbers.amount(meaning.leakage),
            "words": f"{'what the curve shows: ' if drawn else ''}the mean over all released symbols",
        },
        {
            "name": "Maximal leakage",
            "value": numbers.amount(meaning.maximal_leakage),
            "words": (
                "no question about the private values becomes easier to guess"
                if factor < 1.0 + ZERO
                else f"no question about the private values becomes more than {numbers.factor(factor)} times as easy "
                "to guess"
            ),
        },
        {
            "name": "Largest lift",
            "value": "× 1" if changeless else lift if lift == UNTOLD else f"× {lift}",
            "words": (
                "no symbol changes any belief"
                if changeless
                else "a symbol or a value that very few rows have decides it"
                if lift == UNTOLD
                else f"one symbol, released {numbers.percent(p_y)} of the time, makes {who} that much more likely"
            ),
        },
        {
            "name": "Local information privacy ε",
            "value": told_epsilon,
            "words": (
                "some symbol rules a private value out"
                if math.isinf(epsilon)
                else "a symbol or a value that very few rows have decides it"
                if told_epsilon == UNTOLD
                else "no belief changes by more than the factor exp(ε), up or down"
            ),
        },
    ]


def heat_maps(solution: Solution, public: Axis, *, width: int, group: str = "") -> str:
    """Draw p(y|x) and p(x|y), for all public symbols or for one value of the first attribute."""
    rows = public.order
    if group:
        rows = rows[[public.values[int(i)][0] == group for i in rows]]
    return channel_maps(solution.channel, solution.problem.p_x, public, rows, width=width)


def channel_maps(
    channel: Array,
    p_x: Array,
    public: Axis,
    rows: NDArray[np.intp],
    *,
    width: int,
    step: float = 0.0,
    steps: Array | None = None,
) -> str:
    """Draw p(y|x) and p(x|y) of some public symbols.

    Args:
        channel: p(y|x), shape (M, N).
        p_x: p(x), shape (M,).
        public: The M public symbols.
        rows: The symbols to draw, in drawing order.
        width: Pixels.
        step: Round p(y|x) to multiples of this; 0 for not at all.
        steps: Round p(x|y) to multiples of these, one for each y, shape (N,): few rows may be behind a symbol.
    """
    p_xy = channel * p_x[:, None]
    p_y = p_xy.sum(axis=0)
    p_x_given_y = np.divide(p_xy, p_y, out=np.zeros_like(p_xy), where=p_y > 0.0)
    used = np.flatnonzero(p_y > 0.0)
    # An order by exact numbers would tell which of two rounded ones is the larger.
    seen = p_x_given_y if steps is None else np.round(p_x_given_y / steps) * steps
    columns = used[heat.column_order(seen[:, used], public.order)]
    columns = columns[channel[np.ix_(rows, columns)].sum(axis=0) > 0.0]
    axis = public.take(rows.tolist())
    names = symbol_names(channel.shape[1])
    labels = tuple(names[j] for j in columns)

    def one(title: str, matrix: Array, to: float | Array) -> str:
        cells = matrix[np.ix_(rows, columns)]
        if np.all(to):
            cells = np.minimum(np.round(cells / to) * to, 1.0)
        return heat.draw(heat.Heat(title, cells, axis, labels), width=width)

    inferred = one(
        "p(x|y): what a reader infers", p_x_given_y, 0.0 if steps is None else np.asarray(steps)[columns]
    )
    return one("p(y|x): what is released", channel, step) + inferred

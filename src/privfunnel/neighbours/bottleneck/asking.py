"""One point or the whole curve of the bottleneck, by the method asked for."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

import numpy as np

from privfunnel.algorithms.options import check_positive, check_whole
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import check_seed
from privfunnel.measures import Array
from privfunnel.model import channels
from privfunnel.model.asked_amounts import check_disclosure
from privfunnel.model.problem import Problem
from privfunnel.neighbours.bottleneck import abp, agglomerative
from privfunnel.neighbours.bottleneck.blahut_arimoto import best
from privfunnel.neighbours.bottleneck.curves import (
    SOLVER,
    BottleneckCurve,
    Found,
    answer,
    ends,
    envelope_of,
    solution_of,
)
from privfunnel.neighbours.bottleneck.proving import SOLVER_NAME as ABP
from privfunnel.neighbours.bottleneck.proving import ProvedPoint, prove
from privfunnel.solving.solution import Solution

#: Method to what its points are said to come from.
METHODS = {"blahut-arimoto": SOLVER, "abp": ABP, "agglomerative": "bottleneck-agglomerative"}


#: A chord of no more than this slope is flat; a gain of no more than PROGRESS nats is none.
FLAT, PROGRESS = 1e-9, 1e-10


def solve(
    problem: Problem,
    *,
    rate: float | None = None,
    multiplier: float | None = None,
    relevance: float | None = None,
    method: str = "blahut-arimoto",
    restarts: int = 4,
    tolerance: float = 1e-9,
    max_steps: int = 5000,
    seed: int = 0,
) -> Solution:
    """Solve one point of the bottleneck. Give exactly one of ``rate``, ``multiplier`` and ``relevance``.

    Args:
        problem: The problem.
        rate: The most I(X;Y) allowed, 0 ≤ rate ≤ H(X), in nats. Blahut-Arimoto searches the multiplier, and time-shares
            two neighbours where it jumps over the rate; ABP takes the rate as it is.
        multiplier: β ≥ 1 instead of a rate: minimise ``I(X;Y) − β I(S;Y)``; Blahut-Arimoto only.
        relevance: The least I(S;Y) asked for, 0 ≤ relevance ≤ I(S;X), in nats, at the least rate; ABP only.
        method: ``"blahut-arimoto"``, ``"abp"``, or ``"agglomerative"``, the merging baseline, which has no options.
        restarts: Random starts beside the one from X itself.
        tolerance: Stop when no entry of p(y|x) moves by more.
        max_steps: Cap on iterations a run.
        seed: Fixes all randomness.

    Returns:
        The solution: ``leakage`` is the relevance I(S;Y), ``disclosure`` the rate I(X;Y), ``slope`` is 1/β.
    """
    _check(restarts, tolerance, max_steps, seed)
    _check_request(method, rate, multiplier, relevance)
    started = time.perf_counter()
    rng = np.random.default_rng(seed)
    if multiplier is not None:
        if not 1.0 <= multiplier < math.inf:
            raise InvalidInputError(f"multiplier={multiplier!r} is not usable: give a finite β ≥ 1")
        channel, status = best(problem, float(multiplier), rng, restarts, tolerance, max_steps, None)
        seconds = time.perf_counter() - started
        made = Answer(channel=channel, status=status, slope=1.0 / multiplier, seconds=seconds)
        return solution_of(problem, made, None, seed)
    if relevance is not None:
        return _least_rate(problem, relevance, restarts, tolerance, max_steps, seed)
    assert rate is not None
    wanted = check_disclosure(problem, rate)
    if method == "abp":
        found = _most_relevance(problem, wanted, rng, restarts, tolerance, max_steps)
        return solution_of(problem, _answer(found, found.channel, started), wanted, seed, ABP)
    pool = _merged(problem) if method == "agglomerative" else _searched(
        problem, wanted, rng, restarts, tolerance, max_steps
    )  # fmt: skip
    seconds = time.perf_counter() - started
    return answer(problem, pool, envelope_of(pool), wanted, seed, seconds, METHODS[method])


def trace(
    problem: Problem,
    *,
    points: int = 20,
    rates: Iterable[float] | None = None,
    multipliers: Iterable[float] | None = None,
    method: str = "blahut-arimoto",
    certify: bool = False,
    restarts: int = 1,
    tolerance: float = 1e-9,
    max_steps: int = 5000,
    seed: int = 0,
) -> BottleneckCurve:
    """Trace the bottleneck's curve, then time sharing between what was found.

    Blahut-Arimoto lowers β step by step from X itself (annealing), ABP takes the rates one by one, and the
    agglomerative bottleneck has a point for every number of outputs.

    Args:
        problem: The problem.
        points: Number of rates, uniform from 0 to H(X).
        rates: The rates in nats, instead of ``points``.
        multipliers: β ≥ 1 of Blahut-Arimoto's sweep; 60 values, geometric in [1.001, 1000], by default.
        method: ``"blahut-arimoto"``, ``"abp"`` or ``"agglomerative"``.
        certify: Also :func:`~privfunnel.neighbours.bottleneck.prove` every rate; the channels of the proofs join the
            others, and ``upper_bound`` is what the proved lines say.
        restarts: Random starts for each β, or rate, beside the main one.
        tolerance: Stop when no entry of p(y|x) moves by more.
        max_steps: Cap on iterations a run.
        seed: Fixes all randomness.
    """
    _check(restarts, tolerance, max_steps, seed)
    check_whole("bottleneck", 2, points=points)
    _check_method(method)
    chosen = np.linspace(0.0, problem.disclosure_ceiling, points) if rates is None else rates
    wanted = sorted({check_disclosure(problem, float(rate)) for rate in chosen})
    betas = (
        np.geomspace(1.001, 1000.0, 60)
        if multipliers is None
        else np.array(sorted(multipliers), dtype=np.float64)
    )
    if not (betas.size and np.isfinite(betas).all() and betas.min() >= 1.0 and wanted):
        raise InvalidInputError(
            "rates and multipliers must not be empty, and multipliers β must be finite and ≥ 1"
        )
    rng = np.random.default_rng(seed)
    if method == "agglomerative":
        found = _merged(problem)
    elif method == "abp":
        found = ends(problem)
        for rate in _inside(problem, wanted):
            run = _most_relevance(problem, rate, rng, restarts, tolerance, max_steps)
            found.append(Found(run.channel, problem.evaluate(run.channel), _status(run)))
    else:
        found, warm = ends(problem), None
        for beta in betas[::-1]:
            warm, status = best(problem, float(beta), rng, restarts, tolerance, max_steps, warm)
            found.append(Found(warm, problem.evaluate(warm), status))
    proofs: list[ProvedPoint] = []
    if certify:
        proofs = [prove(problem, rate, seed=seed) for rate in _inside(problem, wanted)]
        for proof in proofs:
            at = proof.solution
            found.append(Found(np.asarray(at.channel), problem.evaluate(at.channel), at.status))
    envelope = envelope_of(found)
    solutions = tuple(answer(problem, found, envelope, r, seed, solver=METHODS[method]) for r in wanted)
    raw = tuple(sorted(each.point for each in found))
    lines = tuple(proof.certificate for proof in proofs if proof.certificate is not None)
    return BottleneckCurve(problem=problem, solutions=solutions, raw=raw, seed=seed, certificates=lines)


def _searched(
    problem: Problem,
    wanted: float,
    rng: np.random.Generator,
    restarts: int,
    tolerance: float,
    max_steps: int,
) -> list[Found]:
    """What Blahut-Arimoto finds for the multipliers around a rate."""
    found = ends(problem)
    envelope = envelope_of(found)
    warm: Array | None = None
    # Multipliers that are tried for one rate, at most.
    for _ in range(40):
        slope, before = -envelope.slope(wanted), envelope.value(wanted)
        # A chord of slope 0 is flat: nothing above it. One of slope 1 meets the bound I(S;Y) ≤ I(X;Y).
        if slope <= FLAT or slope >= 1.0:
            break
        warm, status = best(problem, 1.0 / slope, rng, restarts, tolerance, max_steps, warm)
        found.append(Found(warm, problem.evaluate(warm), status))
        envelope = envelope_of(found)
        if envelope.value(wanted) >= before - PROGRESS:
            break
    return found


def _merged(problem: Problem) -> list[Found]:
    """Every mapping of the agglomerative bottleneck, and the ends."""
    made = agglomerative.mappings(problem)
    return [*ends(problem), *(Found(c, problem.evaluate(c), Status.FEASIBLE) for c in made)]


def _most_relevance(
    problem: Problem,
    rate: float,
    rng: np.random.Generator,
    restarts: int,
    tolerance: float,
    max_steps: int,
) -> abp.Run:
    """ABP's best run at a rate: from X itself, and from random channels."""
    n_x = problem.n_x
    starts = [abp.whole(problem), *rng.dirichlet(np.ones(n_x), size=(restarts, n_x))]
    runs = [abp.run(problem, start, rate=rate, tolerance=tolerance, max_steps=max_steps) for start in starts]
    top = max(runs, key=lambda run: problem.evaluate(run.channel).leakage)
    return top._replace(channel=channels.merge_outputs(top.channel))


def _least_rate(
    problem: Problem, relevance: float, restarts: int, tolerance: float, max_steps: int, seed: int
) -> Solution:
    """ABP as its authors have it: the least rate for a relevance, from X itself and starts near it that tell enough."""
    started = time.perf_counter()
    if not 0.0 <= relevance <= problem.leakage_ceiling + problem.rounding:
        raise InvalidInputError(
            f"relevance={relevance!r} is out of reach: give nats from 0 to I(S;X) = {problem.leakage_ceiling:.6g}"
        )
    rng = np.random.default_rng(seed)
    wanted = min(float(relevance), problem.leakage_ceiling)
    starts = [abp.whole(problem)]
    starts += [abp.near_identity(problem, rng, relevance=wanted) for _ in range(restarts)]
    runs = [
        abp.run(problem, start, relevance=wanted, tolerance=tolerance, max_steps=max_steps)
        for start in starts
    ]
    top = min(runs, key=lambda run: problem.evaluate(run.channel).disclosure)
    made = _answer(top, channels.merge_outputs(top.channel), started)
    return solution_of(problem, made, None, seed, ABP)


def _answer(run: abp.Run, channel: Array, started: float) -> Answer:
    """What ABP found, with the channel that is given of it."""
    seconds = time.perf_counter() - started
    return Answer(channel=channel, status=_status(run), slope=_slope(run.multiplier), seconds=seconds)


def _inside(problem: Problem, rates: Iterable[float]) -> list[float]:
    """The rates that need work: those further than 1e-9 nats from both ends of the curve."""
    return [rate for rate in rates if 1e-9 < rate < problem.disclosure_ceiling - 1e-9]


def _slope(multiplier: float) -> float:
    """1/β, no more than 1: the curve is nowhere steeper."""
    return 1.0 / max(multiplier, 1.0)


def _status(run: abp.Run) -> Status:
    return Status.CONVERGED if run.still else Status.MAX_STEPS


def _check_method(method: str) -> None:
    if method not in METHODS:
        raise InvalidInputError(f"method={method!r} is not known: choose one of {', '.join(METHODS)}")


def _check_request(
    method: str, rate: float | None, multiplier: float | None, relevance: float | None
) -> None:
    """Exactly one of the three, and one that the method understands."""
    _check_method(method)
    if (rate is not None) + (multiplier is not None) + (relevance is not None) != 1:
        raise InvalidInputError(
            "give exactly one of rate= (nats, the most I(X;Y)), multiplier= (β ≥ 1) and relevance= (nats, the least "
            "I(S;Y))"
        )
    if multiplier is not None and method != "blahut-arimoto":
        raise InvalidInputError(f"multiplier= belongs to method='blahut-arimoto': give {method} a rate")
    if relevance is not None and method != "abp":
        raise InvalidInputError(f"relevance= belongs to method='abp': give {method} a rate")


def _check(restarts: int, tolerance: float, max_steps: int, seed: int) -> None:
    check_whole("bottleneck", 0, restarts=restarts)
    check_whole("bottleneck", 1, max_steps=max_steps)
    check_positive("bottleneck", tolerance=tolerance)
    check_seed(seed)

"""What can be asked for can be had, and ``throw=False`` throws nothing, whatever the solver and the table."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privfunnel as pf
from privfunnel.algorithms import registry
from privfunnel.algorithms.base import Solver
from privfunnel.certificate import Certificate, Claim, PlainBody
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import CertificateError, InfeasibleError, InvalidInputError, SolverError
from privfunnel.model import channels
from privfunnel.model.question import FEASIBILITY
from privfunnel.solving import tracing
from strategies import problems
from toys import QUICK

#: Solvers that a small table does not keep busy, the default one among them; ipopt is not everywhere.
NAMES = [name for name in registry.names() if name not in ("ipopt", "drs", "dca", "slsqp")]
#: Solvers that refuse tables they are not made for.
CHOOSY = ("binary", "deterministic", "perfect")

PROBLEM = pf.Problem([[0.3, 0.05, 0.1], [0.05, 0.2, 0.3]])


@given(
    problem=problems(max_s=6, max_x=8),
    name=st.sampled_from(NAMES),
    share=st.one_of(st.floats(0.0, 1.0), st.sampled_from([1e-13, 1e-7, 1.0 - 1e-7, 1.0 - 1e-13])),
    asked=st.sampled_from(["disclosure", "leakage"]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_request_is_answered_without_an_exception(
    problem: pf.Problem, name: str, share: float, asked: str
) -> None:
    ceiling = {"disclosure": problem.disclosure_ceiling, "leakage": problem.leakage_ceiling}[asked]
    options = QUICK.get(name, {}) | ({"time_limit": 1.0} if name in ("auto", "global") else {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = pf.solve(problem, **{asked: share * ceiling}, solver=name, throw=False, **options)  # type: ignore[arg-type]
    assert np.isfinite([solution.disclosure, solution.leakage, solution.lower_bound]).all()
    if name not in CHOOSY:
        assert solution.status not in (Status.INFEASIBLE, Status.FAILED)
        if asked == "disclosure":
            assert solution.disclosure >= share * ceiling - FEASIBILITY
        else:
            assert solution.leakage <= share * ceiling + FEASIBILITY


@dataclass(frozen=True, kw_only=True)
class Short(Solver):
    """A solver that always misses by a little."""

    name: ClassVar[str] = "short"
    missing: float = 1.9e-7

    def solve(self, problem: pf.Problem, disclosure: float, **_: object) -> Answer:
        share = (disclosure - self.missing) / problem.disclosure_ceiling
        parts = [channels.identity(problem.n_x), channels.constant(problem.n_x)]
        return Answer(channel=channels.time_share(parts, [share, 1.0 - share]), status=Status.CONVERGED)

    def solve_leakage(self, problem: pf.Problem, leakage: float, **_: object) -> Answer:
        share = (leakage + self.missing) / problem.leakage_ceiling
        parts = [channels.identity(problem.n_x), channels.constant(problem.n_x)]
        return Answer(channel=channels.time_share(parts, [share, 1.0 - share]), status=Status.CONVERGED)


def test_a_channel_that_falls_short_is_repaired() -> None:
    solution = pf.solve(PROBLEM, disclosure=0.5, solver=Short())
    assert solution.status is Status.CONVERGED
    assert solution.disclosure == pytest.approx(0.5, abs=1e-12)
    solution = pf.solve(PROBLEM, leakage=0.05, solver=Short())
    assert solution.leakage == pytest.approx(0.05, abs=1e-12)


@dataclass(frozen=True, kw_only=True)
class Failing(Solver):
    """A solver that raises what linear algebra may raise."""

    name: ClassVar[str] = "failing"
    kind: type[Exception] = SolverError

    def trace(self, *_: object, **__: object) -> Iterator[Answer]:
        raise self.kind("out of range")
        yield


@pytest.mark.parametrize("kind", [SolverError, np.linalg.LinAlgError, FloatingPointError, OverflowError])
def test_a_failure_is_a_status_unless_it_is_to_be_thrown(kind: type[Exception]) -> None:
    solution = pf.solve(PROBLEM, disclosure=0.5, solver=Failing(kind=kind), throw=False)
    assert solution.status is Status.FAILED
    assert solution.message == "out of range"
    with pytest.raises(kind, match="out of range"):
        pf.solve(PROBLEM, disclosure=0.5, solver=Failing(kind=kind))


def test_too_few_outputs_are_a_failure_with_advice() -> None:
    problem = pf.instances.load("heart-failure")
    asked = 0.95 * problem.disclosure_ceiling
    solution = pf.solve(problem, disclosure=asked, solver="aem", outputs=2, throw=False)
    assert solution.status is Status.FAILED
    assert "outputs" in solution.message


# --- alarms: proofs that do not hold ----------------------------------------------------------------------------------

#: Four classes of two symbols each, for what is proved on classes and carried over to their members.
DOUBLED = pf.Problem(np.repeat([[0.15, 0.02, 0.05, 0.08], [0.02, 0.1, 0.06, 0.02]], 2, axis=1))


def deny(*_: object, **__: object) -> None:
    raise CertificateError("the tree has a hole")


def refuted(*_: object, **__: object) -> float:
    return -10.0


#: What a broken certificate does, and what is then said.
BROKEN = [
    (Certificate, "verify", deny, "the tree has a hole"),
    (Claim, "left_of", refuted, "please report this"),
]


@pytest.mark.parametrize(("what", "method", "does", "said"), BROKEN)
@pytest.mark.parametrize("asked", ["disclosure", "leakage"])
def test_a_wrong_proof_is_a_status_and_bounds_nothing(
    monkeypatch: pytest.MonkeyPatch, what: type, method: str, does: object, said: str, asked: str
) -> None:
    amount = {"disclosure": 0.7 * PROBLEM.disclosure_ceiling, "leakage": 0.3 * PROBLEM.leakage_ceiling}[asked]
    sound = pf.solve(PROBLEM, **{asked: amount}, solver="global")  # type: ignore[arg-type]
    assert sound.certificate is not None
    monkeypatch.setattr(what, method, does)
    solution = pf.solve(PROBLEM, **{asked: amount}, solver=Proved(answer=sound), throw=False)  # type: ignore[arg-type]
    assert solution.status is Status.FAILED
    assert said in solution.message
    assert np.array_equal(solution.channel, sound.channel)
    assert (solution.lower_bound, solution.certificate) == (0.0, None)
    assert solution.disclosure_upper_bound in (None, PROBLEM.disclosure_ceiling)
    with pytest.raises((CertificateError, SolverError), match=said):
        pf.solve(PROBLEM, **{asked: amount}, solver=Proved(answer=sound))  # type: ignore[arg-type]


@pytest.mark.parametrize(("what", "method", "does", "said"), BROKEN)
def test_a_curve_with_a_wrong_proof_has_its_channels_and_no_bound(
    monkeypatch: pytest.MonkeyPatch, what: type, method: str, does: object, said: str
) -> None:
    wanted = 0.7 * PROBLEM.disclosure_ceiling
    sound = pf.solve(PROBLEM, disclosure=wanted, solver="global")
    grid = [0.0, wanted, PROBLEM.disclosure_ceiling]
    monkeypatch.setattr(what, method, does)
    monkeypatch.setattr(tracing, "verify_all", deny if method == "verify" else lambda *_: None)
    with pytest.raises((CertificateError, SolverError), match=said):
        pf.trace(PROBLEM, disclosures=grid, solver=Proved(answer=sound))
    curve = pf.trace(PROBLEM, disclosures=grid, solver=Proved(answer=sound), throw=False)
    point = curve.solutions[1]
    assert point.status is Status.FAILED
    assert said in point.message
    assert np.array_equal(point.channel, sound.channel)
    assert (point.lower_bound, point.certificate) == (0.0, None)


def test_a_proof_that_does_not_hold_for_the_members_of_classes_is_a_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def only_classes(self: Certificate, problem: pf.Problem) -> None:
        if problem.n_x == DOUBLED.n_x:
            deny()

    monkeypatch.setattr(Certificate, "verify", only_classes)
    monkeypatch.setattr(tracing, "verify_all", lambda _, proofs: deny() if proofs else None)
    asked = 0.9 * DOUBLED.disclosure_ceiling
    with pytest.raises(CertificateError):
        pf.solve(DOUBLED, disclosure=asked, solver="global", lump=True)
    solution = pf.solve(DOUBLED, disclosure=asked, solver="global", lump=True, throw=False)
    curve = pf.trace(DOUBLED, disclosures=[asked], solver="global", lump=True, throw=False)
    for point in (solution, *curve.solutions):
        assert (point.status, point.message) == (Status.FAILED, "the tree has a hole")
        assert point.disclosure >= asked - FEASIBILITY
        assert point.lower_bound == 0.0


def test_a_guarded_answer_with_a_wrong_proof_is_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0.5 * PROBLEM.disclosure_ceiling
    monkeypatch.setattr(Certificate, "verify", deny)
    with pytest.raises(CertificateError):
        pf.solve(PROBLEM, disclosure=asked, guarantees=["lip=1"], gap=1e-2)
    solution = pf.solve(PROBLEM, disclosure=asked, guarantees=["lip=1"], gap=1e-2, throw=False)
    assert (solution.status, solution.message) == (Status.FAILED, "the tree has a hole")
    assert solution.disclosure >= asked - FEASIBILITY
    assert (solution.lower_bound, solution.certificate) == (0.0, None)


@pytest.mark.parametrize("share", [1.0, 1.5])
def test_what_guarantees_forbid_is_a_status(share: float) -> None:
    asked = share * PROBLEM.disclosure_ceiling
    with pytest.raises(InfeasibleError):
        pf.solve(PROBLEM, disclosure=asked, guarantees=["lip=0.1"])
    solution = pf.solve(PROBLEM, disclosure=asked, guarantees=["lip=0.1"], throw=False)
    assert solution.status is Status.INFEASIBLE
    assert "nats" in solution.message
    assert solution.leakage == 0.0


@dataclass(frozen=True, kw_only=True)
class Proved(Solver):
    """A solver that has the answer of another one, with its proof."""

    name: ClassVar[str] = "proved"
    answer: pf.Solution | None = None

    def solve(self, problem: pf.Problem, disclosure: float, **_: object) -> Answer:
        assert self.answer is not None
        proof = self.answer.certificate
        assert isinstance(proof.body, PlainBody)
        return Answer(channel=self.answer.channel, status=Status.OPTIMAL, certificate=proof)

    def solve_leakage(self, problem: pf.Problem, leakage: float, **_: object) -> Answer:
        return self.solve(problem, leakage)


@dataclass(frozen=True, kw_only=True)
class Nonsense(Solver):
    """A solver whose channel is none."""

    name: ClassVar[str] = "nonsense"

    def solve(self, problem: pf.Problem, disclosure: float, **_: object) -> Answer:
        return Answer(channel=np.full((problem.n_x, 2), 0.7), status=Status.OPTIMAL)


def test_a_channel_that_is_none_is_replaced_by_one_that_tells_nothing() -> None:
    solution = pf.solve(PROBLEM, disclosure=0.5, solver=Nonsense(), throw=False)
    assert (solution.status, solution.disclosure) == (Status.FAILED, 0.0)
    assert "sums to 1.4" in solution.message
    with pytest.raises(InvalidInputError, match=r"sums to 1\.4"):
        pf.solve(PROBLEM, disclosure=0.5, solver=Nonsense())
    curve = pf.trace(PROBLEM, disclosures=[0.5], solver=Nonsense(), throw=False)
    assert curve.status == (Status.FAILED,)


@dataclass(frozen=True, kw_only=True)
class Tiring(Proved):
    """A solver that answers once."""

    name: ClassVar[str] = "tiring"

    def trace(self, problem: pf.Problem, disclosures: Iterable[float], **_: object) -> Iterator[Answer]:
        yield self.solve(problem, min(disclosures))
        raise SolverError("tired")


def test_a_solver_that_fails_in_the_middle_of_a_curve_leaves_what_it_found() -> None:
    sound = pf.solve(PROBLEM, disclosure=0.7 * PROBLEM.disclosure_ceiling, solver="global")
    grid = [0.0, sound.disclosure, 0.9 * PROBLEM.disclosure_ceiling]
    curve = pf.trace(PROBLEM, disclosures=grid, solver=Tiring(answer=sound), throw=False)
    assert curve.status == (Status.OPTIMAL, Status.OPTIMAL, Status.FAILED)
    assert curve.solutions[2].message == "tired"
    with pytest.raises(SolverError, match="tired"):
        pf.trace(PROBLEM, disclosures=grid, solver=Tiring(answer=sound))
    curve = pf.trace(PROBLEM, points=3, refine=1, solver=Failing(), throw=False)
    assert curve.status == (Status.OPTIMAL, Status.FAILED, Status.OPTIMAL)
    with pytest.raises(SolverError, match="out of range"):
        tracing.sound(curve)

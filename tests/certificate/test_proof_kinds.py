"""Proofs of every kind against every kind of lie, each told by a file: none is believed.

What is changed in a file is refused, or it is an honest proof of something that is true all the same: any multipliers
are safe. A claim that says more, an array that is damaged, and another scope are refused whatever the kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from honest_proofs import HONEST, honest, parts_of
from privfunnel.certificate import KINDS, PARTS, Certificate, load_bundle, save_bundle, verify_all
from privfunnel.errors import CertificateError, InvalidInputError
from privfunnel.model.threat import Threat

Arrays = dict[str, Any]

#: What a scope says that is as in the plain funnel.
PLAIN = {"zero": False, "tasks": None, "invariant": False, "quantity": "information", "guards": None}


@pytest.fixture(params=sorted(HONEST))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def stored(line: Certificate, path: Path) -> Arrays:
    """What the file of a proof holds."""
    save_bundle(path, [line])
    with np.load(path) as data:
        arrays = dict(data)
    # What is as in the plain funnel may be said, too.
    arrays.setdefault("0.claim.weights", line.claim.weights)
    return {"0.claim.scope.said": np.array(json.dumps(PLAIN)), **arrays}


def told(arrays: Arrays, path: Path) -> Certificate:
    """The proof that a file with these arrays holds."""
    np.savez(path, **arrays)
    (line,) = load_bundle(path)
    return line


def channels_of(problem: pf.Problem, line: Certificate) -> Iterator[np.ndarray[Any, Any]]:
    """Channels of the claim's scope: any, or where it is narrow one that tells nothing and one that changes nothing."""
    scope, n = line.claim.scope, problem.n_x
    guards = scope.guards
    shown = np.eye(n)[:, :1] * 0.0 + 1.0 if guards is None else np.asarray(guards.nothing(problem))
    free = not (
        scope.zero or scope.invariant or (guards is not None and (guards.published or guards.guarantees))
    )
    if not scope.invariant:
        yield np.eye(n)[:1].repeat(n, axis=0) if scope.costs is not None else shown
    if free or scope.invariant:
        yield np.eye(n)
    if free:
        rng = np.random.default_rng(0)
        for concentration in (0.05, 0.3, 2.0) * 5:
            yield rng.dirichlet(np.full(n, concentration), size=n)


def refused(arrays: Arrays, problem: pf.Problem, path: Path) -> bool:
    """Whether a file is refused, with one line that says why."""
    try:
        told(arrays, path).verify(problem)
    except CertificateError as error:
        return "\n" not in str(error)
    return False


def foreign(problem: pf.Problem) -> pf.Problem:
    """Another table of the same shape, with the same columns and tasks."""
    rng = np.random.default_rng(8)
    table = problem.p_sx * rng.uniform(0.5, 1.5, problem.p_sx.shape) if problem.counts is None else (
        problem.counts + rng.integers(0, 9, problem.counts.shape)
    )  # fmt: skip
    p_x = table.sum(axis=0) / table.sum()
    tasks = None if problem.tasks is None else {t.name: t.p_u_given_x * p_x for t in problem.tasks.tasks}
    return pf.Problem(
        table if problem.counts is not None else table / table.sum(),
        public_columns=problem.public_columns, private_columns=problem.private_columns, p_ux=tasks,
    )  # fmt: skip


def test_every_kind_has_an_honest_proof() -> None:
    lines = [honest(name)[1] for name in HONEST]
    assert {line.body.kind for line in lines} == set(KINDS)
    assert set().union(*map(parts_of, lines)) == set(PARTS)


def test_an_honest_proof_survives_its_file_and_no_channel_is_below_it(name: str, tmp_path: Path) -> None:
    problem, line = honest(name)
    again = told(stored(line, tmp_path / "a.npz"), tmp_path / "b.npz")
    again.verify(problem)
    assert (again.words, again.n_nodes, again._digest()) == (line.words, line.n_nodes, line._digest())
    seen = [line.claim.left_over(problem, channel) for channel in channels_of(problem, line)]
    assert seen
    assert min(seen) >= -1e-9


def test_a_shifted_claim_is_refused(name: str, tmp_path: Path) -> None:
    problem, line = honest(name)
    arrays = stored(line, tmp_path / "a.npz")
    for shift in (1e-12, 1e-9, 1e-3, np.inf, np.nan):
        lie = {**arrays, "0.claim.numbers": arrays["0.claim.numbers"] + np.array([shift, 0.0, 0.0, 0.0])}
        assert refused(lie, problem, tmp_path / "b.npz"), shift
    # A steeper line through the same point, a smaller weight, and slopes of what the proof is not about.
    for place in range(1, 4):
        more = np.zeros(4)
        more[place] = -0.05 if place == 3 else 0.05
        lie = {**arrays, "0.claim.numbers": arrays["0.claim.numbers"] + more}
        assert refused(lie, problem, tmp_path / "b.npz"), place
    for weights in (
        0.9 * arrays["0.claim.weights"],
        -1.0 - arrays["0.claim.weights"],
        np.ones(7),
        np.zeros(0),
    ):
        if not np.array_equal(weights, arrays["0.claim.weights"]):
            assert refused({**arrays, "0.claim.weights": weights}, problem, tmp_path / "b.npz"), weights


def test_a_foreign_table_is_refused(name: str, tmp_path: Path) -> None:
    problem, line = honest(name)
    other = foreign(problem)
    assert (other.n_s, other.n_x) == (problem.n_s, problem.n_x)
    with pytest.raises(CertificateError, match="another problem"):
        line.verify(other)
    lie = {**stored(line, tmp_path / "a.npz"), "0.fingerprint": np.array(other.fingerprint)}
    if other.tasks is not None and line.claim.scope.tasks is not None:
        said = json.loads(str(lie["0.claim.scope.said"]))
        lie["0.claim.scope.said"] = np.array(json.dumps({**said, "tasks": other.tasks.fingerprint}))
    if not refused(lie, other, tmp_path / "b.npz"):  # then it is true of that table, too
        claim = told(lie, tmp_path / "b.npz").claim
        assert min(claim.left_over(other, channel) for channel in channels_of(other, line)) >= -1e-9


def test_a_damaged_array_is_refused(name: str, tmp_path: Path) -> None:
    problem, line = honest(name)
    arrays = stored(line, tmp_path / "a.npz")
    for place, array in arrays.items():
        if not place.startswith("0.body."):
            continue
        without = {other: each for other, each in arrays.items() if other != place}
        if place != "0.body.0.touching" and not place.endswith(
            (".tilts", ".outputs", ".cells", ".coarsening")
        ):
            assert refused(without, problem, tmp_path / "b.npz") or ".curved." in place, place
        if array.dtype.kind == "U":
            assert refused({**arrays, place: np.array(["none"] * array.size)}, problem, tmp_path / "b.npz"), (
                place
            )
            continue
        broken = array.astype(np.float64)
        for value in (np.nan, np.inf):
            lie = {**arrays, place: np.full_like(broken, value)}
            assert refused(lie, problem, tmp_path / "b.npz") or array.size == 0, (place, value)
        if array.ndim and len(array) > 1:
            assert refused({**arrays, place: array[:-1]}, problem, tmp_path / "b.npz"), place
        lie = {**arrays, place: np.broadcast_to(array, (2, *array.shape)).copy()}
        assert refused(lie, problem, tmp_path / "b.npz") or array.size == 0, place


def test_what_is_moved_a_little_is_refused_or_true(name: str, tmp_path: Path) -> None:
    problem, line = honest(name)
    arrays = stored(line, tmp_path / "a.npz")
    rng = np.random.default_rng(4)
    channels = list(channels_of(problem, line))
    for place, array in arrays.items():
        if not (place.startswith("0.body.") and array.dtype.kind == "f" and array.size):
            continue
        for size in (1e-6, 1e-2):
            lie = {**arrays, place: array + size * rng.normal(size=array.shape)}
            if not refused(lie, problem, tmp_path / "b.npz"):
                claim = told(lie, tmp_path / "b.npz").claim
                assert min(claim.left_over(problem, channel) for channel in channels) >= -1e-9, place


def scopes(problem: pf.Problem, said: Arrays) -> Iterator[tuple[str, Arrays]]:
    """Other scopes, each by what is other in it."""
    knowing = Threat.of(
        problem, known=["a"] if "a" in problem.public_columns else [np.arange(problem.n_x) % 2]
    )
    nobody, looser = Threat.of(problem), Threat.of(problem, guarantees=["lip=3"])
    for what, guards in (
        ("nobody", None), ("knows nothing", nobody), ("knows something", knowing), ("guarantees", looser),
        ("guessing", Threat.of(problem, measure="guessing")),
    ):  # fmt: skip
        stated = None if guards is None else guards.to_dict()
        if stated != said["guards"]:
            yield what, {"guards": stated}
    yield "zero", {"zero": not said["zero"]}
    yield "invariant", {"invariant": not said["invariant"]}
    for tasks in (None, "0" * 64, None if problem.tasks is None else problem.tasks.fingerprint):
        if tasks != said["tasks"]:
            yield "tasks", {"tasks": tasks}
    for quantity in ("information", "chi-squared", "guesses"):
        if quantity != said["quantity"]:
            yield quantity, {"quantity": quantity}


#: The one swap that makes a true claim: what is proved of all posteriors holds of those that tell nothing.
TRUE = ("guarded, known", "zero")


def test_a_swapped_scope_is_refused(name: str, tmp_path: Path) -> None:
    problem, line = honest(name)
    arrays = stored(line, tmp_path / "a.npz")
    said = json.loads(str(arrays["0.claim.scope.said"]))
    swapped = list(scopes(problem, said))
    assert len(swapped) >= 8
    for what, change in swapped:
        lie = {**arrays, "0.claim.scope.said": np.array(json.dumps({**said, **change}))}
        if (name, what) == TRUE:
            assert not refused(lie, problem, tmp_path / "b.npz")
            continue
        assert refused(lie, problem, tmp_path / "b.npz"), (what, change)
    n = problem.n_x
    costs = arrays.get("0.claim.scope.costs")
    for lie in (
        [1.0 - np.eye(n)] if costs is None else [0.5 * costs, costs[:-1], -costs, np.full((n, n), np.nan)]
    ):
        assert refused({**arrays, "0.claim.scope.costs": lie}, problem, tmp_path / "b.npz")
    if costs is not None:
        del arrays["0.claim.scope.costs"]
        assert refused(arrays, problem, tmp_path / "b.npz")


def test_another_kind_is_refused(name: str, tmp_path: Path) -> None:
    problem, line = honest(name)
    arrays = stored(line, tmp_path / "a.npz")
    for kind in {*KINDS, "made up"} - {line.body.kind}:
        assert refused({**arrays, "0.kind": np.array(kind)}, problem, tmp_path / "b.npz"), kind
    # These hold nothing of a search: their checkers search, and find the same.
    for kind in set(PARTS) - {"supports", "vertices"}:
        parts = arrays.get("0.body.kinds")
        if parts is not None and kind not in parts.tolist():
            lie = {**arrays, "0.body.kinds": np.full(parts.shape, kind)}
            assert refused(lie, problem, tmp_path / "b.npz"), kind


def test_lies_do_not_hide_among_honest_proofs(tmp_path: Path) -> None:
    problem, line = honest("plain, trees")
    arrays = stored(line, tmp_path / "a.npz")
    numbers = arrays["0.claim.numbers"] + np.array([1e-9, 0.0, 0.0, 0.0])
    lie = told({**arrays, "0.claim.numbers": numbers}, tmp_path / "b.npz")
    again = told(arrays, tmp_path / "c.npz")
    with pytest.raises(CertificateError, match="claims the line"):
        verify_all(problem, [again, lie])
    with pytest.raises(CertificateError, match="claims the line"):
        lie.verify(problem)


def test_other_versions_are_refused_in_one_sentence(tmp_path: Path) -> None:
    arrays = stored(honest("task")[1], tmp_path / "a.npz")
    for version in (0, 2, 14):
        np.savez(tmp_path / "b.npz", **{**arrays, "version": np.array(version)})
        with pytest.raises(CertificateError, match=f"has certificate version {version}, this release reads"):
            load_bundle(tmp_path / "b.npz")
    with pytest.raises(InvalidInputError, match="check the path"):
        load_bundle(tmp_path / "absent.npz")

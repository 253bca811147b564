"""What learnt encoders really do, by enumeration and closed forms, and deep methods beside the solvers."""

from __future__ import annotations

import numpy as np
import pytest

import privfunnel as pf
from privfunnel import measures
from privfunnel.errors import InvalidInputError
from privfunnel.neighbours.gaussian import GaussianProblem
from privfunnel.studies import comparison

pytest.importorskip("torch", reason="deep funnels need PyTorch")
pytest.importorskip("safetensors", reason="deep funnels are kept as safetensors")

import torch

from helpers_deep import CELLS, FORMS, NUMBERS, RNG, doubled, made, table
from privfunnel.learning.deep import closed_forms, data, exact
from privfunnel.learning.deep.codes import Code, GaussianCode, LaplaceCode
from privfunnel.learning.deep.entrant import FORMS as DEEP_FORMS
from privfunnel.learning.deep.entrant import STRENGTHS, DeepSweep
from privfunnel.learning.deep.layers import start
from privfunnel.learning.deep.layout import Layout
from privfunnel.learning.deep.methods import METHODS, Variables

# --- exact and closed forms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [GaussianCode(size=1), LaplaceCode(size=1)], ids=lambda code: code.kind)
def test_sampled_informations_agree_with_quadrature(code: Code) -> None:
    p_sx = table()
    method = made("vpaf", CELLS, code)
    params = start(method.networks(), doubled([3]), torch.float64)
    found = exact.informations(method, params, np.eye(4), p_sx)
    y = torch.linspace(-60.0, 60.0, 240_001, dtype=torch.float64)
    output = method.encode(params, torch.eye(4, dtype=torch.float64)[None])[0]
    density = np.exp(code.log_density(output[:, None], y[None, :, None]).numpy())
    cell = 120.0 / 240_000
    p_x = p_sx.sum(axis=0)
    disclosure = float(measures.mutual_information(p_x[:, None] * density * cell))
    leakage = float(measures.mutual_information(p_sx @ density * cell))
    assert abs(found.disclosure - disclosure) < 5.0 * found.disclosure_error
    assert abs(found.leakage - leakage) < 5.0 * found.leakage_error
    assert 0.0 < found.leakage_error < 0.01


def test_the_best_gaussian_mechanism_is_met_by_the_encoder_that_it_describes() -> None:
    mixing, floor = np.array([[2.0, 0.0, 0.0], [0.0, 0.5, 0.0]]), 0.04
    method = METHODS["vpaf"](
        variables=Variables(Layout(3), Layout(2)), code=GaussianCode(size=3, additive=True), hidden=()
    )
    params = start(method.networks(), doubled([0]), torch.float64)
    scales = np.array([0.0, 1.0, 1.0])  # the two directions that say least about S
    noise = np.sqrt(floor / (1.0 - floor))
    params["encoder.0.weight"] = torch.tensor(np.diag(scales))[None]
    params["noise.0.bias"] = torch.full(
        (1, 1, 3), 6.0 * float(np.arctanh(np.log(noise) / 6.0)), dtype=torch.float64
    )
    found, variances = closed_forms.linear_informations(method, params, mixing)
    assert variances == pytest.approx([floor, floor, 1.0])
    assert found.disclosure == pytest.approx(np.log(1.0 / floor))
    pair = GaussianProblem(mixing @ mixing.T + np.eye(2), mixing, np.eye(3))
    assert found.leakage == pytest.approx(pair.funnel(found.disclosure, resolution=floor).leakage)
    with pytest.raises(InvalidInputError, match="not linear"):
        closed_forms.linear_informations(made("vpaf", NUMBERS, GaussianCode()), params, mixing)


def test_no_channel_leaks_less_of_a_symmetric_pair_than_the_closed_form() -> None:
    p_sx = data.symmetric_pair(4, 0.3)
    for _ in range(50):
        channel = RNG.dirichlet(np.ones(4), size=4) * 0.5 + 0.5 * np.eye(4)
        far = 1.0 - float(np.trace(channel)) / 4
        leakage = float(measures.mutual_information(p_sx @ channel))
        assert leakage >= closed_forms.symmetric_pair_leakage(4, 0.3, far) - 1e-12


def test_a_normal_pair_in_bins_keeps_nearly_all_of_its_information() -> None:
    p_sx = data.discretised_pair(0.6, 5, 40)
    assert p_sx.sum(axis=0) == pytest.approx(np.full(40, 1 / 40))
    assert p_sx.sum(axis=1) == pytest.approx(np.full(5, 1 / 5), abs=1e-6)
    whole = -0.5 * np.log(1.0 - 0.6**2)
    assert 0.8 * whole < float(measures.mutual_information(p_sx)) < whole


# --- in a comparison ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_deep_method_answers_like_a_solver(form: str) -> None:
    problem = pf.instances.load("synthetic-uniform")
    asked = 0.5 * problem.disclosure_ceiling
    solution = pf.solve(problem, disclosure=asked, solver=DeepSweep(form=form, restarts=1, max_steps=8))
    again = pf.solve(problem, disclosure=asked, solver=DeepSweep(form=form, restarts=1, max_steps=8))
    assert solution.disclosure >= asked - 1e-9
    assert (
        float(problem.lower_bound(asked)) - 1e-12
        <= solution.leakage
        <= float(problem.upper_bound(asked)) + 1e-9
    )
    assert np.array_equal(solution.channel, again.channel)


def test_the_forms_of_a_comparison_are_those_of_the_room() -> None:
    assert tuple(comparison.DEEP.values()) == tuple(DEEP_FORMS) == tuple(STRENGTHS) == tuple(FORMS)
    (entrant,) = comparison.lineup(["deep-ppan"]).values()
    assert entrant == DeepSweep(form="ppan")
    with pytest.raises(InvalidInputError, match="form='x'"):
        DeepSweep(form="x")


def test_a_time_limit_ends_training_where_it_is() -> None:
    problem = pf.instances.load("synthetic-uniform")
    heard: list[object] = []
    solver = DeepSweep(restarts=1, max_steps=10_000, time_limit=0.1)
    answers = list(solver.trace(problem, [], progress=heard.append))
    assert 1 <= len(heard) < 10_000
    assert answers
    assert "cut by the time limit" in answers[0].message

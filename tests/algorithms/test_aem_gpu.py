"""AEM in PyTorch: the same answers as in NumPy on the CPU, and fused kernels that are the eager step on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers_aem import case
from privfunnel.algorithms.aem import AEM, arrays
from privfunnel.algorithms.aem.devices import make_backend
from privfunnel.algorithms.aem.starts import random_channel
from privfunnel.algorithms.aem.state import Tables, log_of
from privfunnel.algorithms.aem.torch_backend import TorchBackend, torch_batch
from privfunnel.data import instances
from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array, mutual_information
from privfunnel.model.problem import Problem

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch", reason="the PyTorch backend needs the extra 'gpu'")

HEART = instances.load("heart-failure", perturbation="probabilities")


@pytest.mark.parametrize("accelerate", [False, True])
def test_torch_gives_the_same_answers(accelerate: bool) -> None:
    wanted = [0.9, 1.5, 2.2]
    options = {"restarts": 4, "max_steps": 60, "accelerate": accelerate}
    ours = AEM(device="numpy", **options).trace(HEART, wanted, seed=3)
    theirs = AEM(device="torch", **options).trace(HEART, wanted, seed=3)
    for disclosure, one, two in zip(wanted, ours, theirs, strict=True):
        assert np.abs(one.channel - two.channel).max() < 1e-9
        assert HEART.evaluate(two.channel).disclosure >= disclosure - 1e-9
        assert one.steps == two.steps


def test_torch_stops_where_the_others_stop() -> None:
    problem = instances.load("synthetic-uniform")
    answers = [
        AEM(device=d, restarts=3, max_steps=3000, accelerate=False).solve(problem, 0.9)
        for d in ("torch", "numpy")
    ]
    assert answers[0].steps == answers[1].steps < 3000
    assert np.abs(answers[0].channel - answers[1].channel).max() < 1e-9
    accelerated = AEM(device="torch", restarts=3, max_steps=400).solve(problem, 0.9)
    assert problem.evaluate(accelerated.channel).leakage == pytest.approx(
        problem.evaluate(answers[1].channel).leakage, abs=1e-9
    )


def test_a_missing_gpu_is_named() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(InvalidInputError, match="PyTorch sees no GPU"):
        AEM(device="cuda").solve(HEART, 1.0)
    assert not isinstance(make_backend(Tables.of(HEART.p_sx), "auto", None), TorchBackend)


@pytest.fixture(scope="module")
def cuda() -> str:
    if not torch.cuda.is_available():
        pytest.skip("the fused kernels need a CUDA device, and PyTorch sees none here")
    pytest.importorskip(
        "triton", reason="the fused kernels need Triton, which comes with PyTorch's CUDA builds"
    )
    return "cuda"


def wide(n_y: int) -> tuple[Tables, Array, Array]:
    """Rows of so many entries, several pieces of the fused kernels."""
    rng = np.random.default_rng(0)
    tables = Tables.of(Problem(rng.dirichlet(np.full(5 * 30, 0.5)).reshape(5, 30)).p_sx)
    p_xy = tables.p_x[:, None] * np.stack([random_channel(30, n_y, 0.5, rng) for _ in range(3)])
    return tables, log_of(p_xy), 0.7 * mutual_information(p_xy) - tables.h_x


@pytest.mark.parametrize("eta", [1.0, 1.7])
@pytest.mark.parametrize(
    "problem", [*map(case, range(12)), wide(400), wide(1300)], ids=[*map(str, range(12)), "short", "long"]
)
def test_fused_kernels_are_the_eager_step(
    cuda: str, problem: tuple[Tables, Array, Array], eta: float
) -> None:
    tables, log_u, target = problem
    fused, eager = torch_batch(tables, cuda), arrays.Batch.of(tables, torch, device=cuda)
    assert fused.fused is not None
    points, goal = torch.asarray(log_u, device=cuda), torch.asarray(target, device=cuda)
    slope = torch.full_like(goal, 0.5)
    slack = torch.full_like(goal, tables.root_tolerance())

    now = arrays.outputs(eager, torch.exp(points))
    for one, other in zip(arrays.outputs(fused, torch.exp(points)), now, strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-13)
    before = torch.where(points > -1e29, points + 0.1 * torch.sin(points), points)
    for one, other in zip(
        *(arrays.momentum(batch, points, before, slope) for batch in (fused, eager)), strict=True
    ):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-14)
    aim = arrays.Aim(points, eager.p_s_given_x.T @ now.log_t, now.log_r, torch.full_like(goal, eta))
    base, log_w = aim.base, aim.log_w
    found = fused.fused.root(fused, aim, slope, goal, slack)
    expected, made = arrays.root(eager, base, log_w, slope, goal, slack)
    assert torch.equal(found >= 0.0, expected >= 0.0)
    rooted = found >= 0.0
    at_root = arrays.evaluate(eager, base, log_w, torch.clip(found, 0.0, None), goal).value[rooted]
    # The two add up rows in another order: G agrees to a few roundings of H(X).
    assert bool((at_root >= -slack[rooted]).all())
    assert bool(((at_root <= 2.0 * slack[rooted]) | (found[rooted] == 0.0)).all())

    log_new, new, growth, divergence = fused.fused.update(fused, aim, expected)
    wanted = torch.where(
        rooted[:, None, None], arrays.log_point(eager, made.weight, made.total, made.exponent), points
    )
    changed, far = arrays.change(eager, points, wanted, made)
    assert torch.allclose(new, torch.exp(wanted), rtol=1e-12, atol=1e-14)
    assert torch.allclose(torch.exp(log_new), new, rtol=1e-12, atol=1e-14)
    assert torch.allclose(growth[rooted], changed[rooted], rtol=1e-6, atol=1e-7)
    assert torch.allclose(divergence[rooted], far[rooted], rtol=1e-6, atol=1e-12)

    better = torch.arange(len(goal), device=cuda) % 2 == 1
    state = arrays.begin(eager, points, before, slope, slope, slope)
    kept = arrays.chosen(eager, better, wanted, state)
    own = state._replace(now=points.clone())
    for one, other in zip(arrays.chosen(fused, better, wanted.clone(), own), kept, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("accelerate", [False, True])
def test_a_gpu_gives_the_answers_of_the_cpu(cuda: str, accelerate: bool) -> None:
    wanted = [0.9, 1.5, 2.2]
    options = {"restarts": 4, "max_steps": 60, "accelerate": accelerate}
    pairs = zip(
        AEM(device=cuda, **options).trace(HEART, wanted, seed=3),
        AEM(device="torch", **options).trace(HEART, wanted, seed=3),
        strict=True,
    )
    for one, two in pairs:
        assert np.abs(one.channel - two.channel).max() < 1e-9

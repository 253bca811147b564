"""AEM in PyTorch, in double precision, on any of its devices."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np

from privfunnel.algorithms.aem import arrays
from privfunnel.algorithms.aem.backends import CPU_MEMORY, Progressed, StepState
from privfunnel.algorithms.aem.state import Tables
from privfunnel.errors import InvalidInputError, need
from privfunnel.measures import Array

#: Runs that are done are taken out of the device's arrays when they make up this share of them; that is looked at
#: after every so many steps, because looking makes the host wait for the device.
COMPACT_AT = 0.25
COMPACT_EVERY = 8
#: Share of the free memory of a GPU that the runs may take.
GPU_MEMORY_SHARE = 0.7
#: Iterations between two checks: each moves the batch to the host and back.
STEPS_PER_CHECK = 256


def make_torch_backend(tables: Tables, device: str) -> TorchBackend:
    """The backend for a PyTorch device; on a GPU it may use most of the memory that is free there."""
    torch = need("torch", extra="gpu")
    if device == "cpu":
        return TorchBackend(tables, device)
    if not torch.cuda.is_available():
        raise InvalidInputError(
            f"device={device!r}, but PyTorch sees no GPU here: use device='cpu' or 'auto'"
        )
    free, _ = torch.cuda.mem_get_info(device)
    return TorchBackend(tables, device, memory=int(GPU_MEMORY_SHARE * free))


def torch_batch(tables: Tables, device: str) -> arrays.Batch:
    """The tables on a device, with fused kernels where Triton and a GPU are there."""
    torch = need("torch", extra="gpu")
    if device == "cpu" or importlib.util.find_spec("triton") is None:
        return arrays.Batch.of(tables, torch, device=device)
    from privfunnel.algorithms.aem import kernel_fused  # it needs Triton

    return arrays.Batch.of(tables, torch, fused=kernel_fused, device=device)


@dataclass(frozen=True)
class TorchBackend:
    """The batched step on one of PyTorch's devices."""

    tables: Tables
    device: str
    memory: int = CPU_MEMORY
    arrays_per_run: int = 14
    steps_per_check: int = STEPS_PER_CHECK

    def _place(self, *values: Array) -> tuple[Any, ...]:
        torch = need("torch", extra="gpu")
        return tuple(torch.asarray(value, device=self.device) for value in values)

    def _batch(self) -> arrays.Batch:
        return torch_batch(self.tables, self.device)

    def advance(
        self, log_u: Array, state: StepState, target: Array, steps: int, tolerance: float
    ) -> Progressed:
        """See :meth:`privfunnel.algorithms.aem.backends.Backend.advance`."""
        batch, xp = self._batch(), need("torch", extra="gpu")
        result = Progressed.blank(state)
        runs = np.arange(len(log_u))
        points, slope, goal = self._place(log_u, state.slope, target)
        residual, done = slope * 0.0 + np.inf, slope * 0.0
        alive = going = slope >= 0.0
        u = None
        for n in range(steps):
            made = arrays.plain_step(batch, points, u, slope, goal)
            take = going & made.moved
            if bool(take.all()):
                points, u = made.log_u, made.u
            else:
                points, u = xp.where(take[:, None, None], made.log_u, points), None
            slope = xp.where(take, made.slope, slope)
            residual = xp.where(take, made.residual, residual)
            done = done + take
            alive = alive & (made.moved | ~going)
            going = take & (residual > tolerance)
            last = n == steps - 1 or not bool(going.any())
            if not last and (n % COMPACT_EVERY or float((~going).sum()) < COMPACT_AT * len(runs)):
                continue
            leaving = ~going | last
            home = runs[leaving.cpu().numpy()]
            for out, values in (
                (log_u, points), (result.state.slope, slope), (result.residual, residual), (result.steps, done),
                (result.alive, alive),
            ):  # fmt: skip
                out[home] = values[leaving].cpu().numpy()
            if last:
                break
            runs, u = runs[going.cpu().numpy()], None
            points, slope, goal, residual, done, alive, going = (
                values[going] for values in (points, slope, goal, residual, done, alive, going)
            )
        return result

    def advance_accelerated(
        self, now: Array, before: Array, state: StepState, target: Array, steps: int, tolerance: float
    ) -> Progressed:
        """See :meth:`privfunnel.algorithms.aem.backends.Backend.advance_accelerated`."""
        batch = self._batch()
        result = Progressed.blank(state)
        run = arrays.begin(batch, *self._place(now, before, *state))
        (goal,) = self._place(target)
        for _ in range(steps):
            run = arrays.accelerated_step(batch, run, goal, tolerance)
            if not bool(run.going.any()):
                break
        home = arrays.AcceleratedState(*(values.cpu().numpy() for values in run))
        now[...], before[...] = home.now, home.before
        result.put(np.arange(len(now)), home)
        return result

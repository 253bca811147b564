"""AEM in PyTorch, in double precision, on any of its devices."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np

from privfunnel.errors import InvalidInputError, need
from privfunnel.measures import Array
from privfunnel.solvers.aem import arrays as batched
from privfunnel.solvers.aem.backends import CPU_MEMORY, Pace, Progressed, note
from privfunnel.solvers.aem.state import Tables

# Runs that are done are taken out of the device's arrays when they make up this share of them.
COMPACT_AT = 0.25
COMPACT_EVERY = 8


def torch_engine(tables: Tables, device: str) -> TorchEngine:
    """The engine for a PyTorch device; on a GPU it may use most of the memory that is free there."""
    torch = need("torch", extra="gpu")
    if device == "cpu":
        return TorchEngine(tables, device)
    if not torch.cuda.is_available():
        raise InvalidInputError(
            f"device={device!r}, but PyTorch sees no GPU here: use device='cpu' or 'auto'"
        )
    free, _ = torch.cuda.mem_get_info(device)
    return TorchEngine(tables, device, memory=int(0.7 * free))


def torch_batch(tables: Tables, device: str) -> batched.Batch:
    """The tables on a device, with fused kernels where Triton and a GPU are there."""
    fused = None
    if device != "cpu" and importlib.util.find_spec("triton") is not None:
        fused = need("privfunnel.solvers.aem.kernel_fused", extra="gpu")
    return batched.Batch.of(tables, need("torch", extra="gpu"), fused=fused, device=device)


@dataclass(frozen=True)
class TorchEngine:
    """The batched step on one of PyTorch's devices."""

    tables: Tables
    device: str
    memory: int = CPU_MEMORY
    arrays_a_run: int = 14
    steps_a_look: int = 256  # each look moves the batch to the host and back

    def _place(self, *arrays: Array) -> tuple[Any, ...]:
        torch = need("torch", extra="gpu")
        return tuple(torch.asarray(array, device=self.device) for array in arrays)

    def _batch(self) -> batched.Batch:
        return torch_batch(self.tables, self.device)

    def advance(self, log_u: Array, pace: Pace, target: Array, steps: int, tolerance: float) -> Progressed:
        """See :meth:`privfunnel.solvers.aem.backends.Engine.advance`."""
        batch, xp = self._batch(), need("torch", extra="gpu")
        result = Progressed.blank(pace)
        runs = np.arange(len(log_u))
        points, slope, goal = self._place(log_u, pace.slope, target)
        residual, done = slope * 0.0 + np.inf, slope * 0.0
        alive = going = slope >= 0.0
        u = None
        for n in range(steps):
            made = batched.plain_step(batch, points, u, slope, goal)
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
                (log_u, points), (result.pace.slope, slope), (result.residual, residual), (result.steps, done),
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

    def hasten(
        self, now: Array, before: Array, pace: Pace, target: Array, steps: int, tolerance: float
    ) -> Progressed:
        """See :meth:`privfunnel.solvers.aem.backends.Engine.hasten`."""
        batch = self._batch()
        result = Progressed.blank(pace)
        state = batched.begin(batch, *self._place(now, before, *pace))
        (goal,) = self._place(target)
        for _ in range(steps):
            state = batched.fast_step(batch, state, goal, tolerance)
            if not bool(state.going.any()):
                break
        home = batched.State(*(values.cpu().numpy() for values in state))
        now[...], before[...] = home.now, home.before
        note(result, np.arange(len(now)), home)
        return result

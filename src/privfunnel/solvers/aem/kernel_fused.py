"""The inner loops of AEM on a CUDA device: the search for λ and the update, in few passes over memory.

The eager operations of PyTorch write and read the M×N table of every run a dozen times for one evaluation of
G, and spend as long again on launching the small operations between. Here an evaluation reads the two tables
it needs once and writes two numbers a row, runs whose λ is found cost nothing, and one small kernel moves all brackets.

Imported only where a CUDA device is used; without Triton the eager operations do the same work. Equations (1) to (5)
are those of :mod:`privfunnel.solvers.aem.state`; the tests marked ``gpu`` compare both kernels with
:mod:`privfunnel.solvers.aem.arrays` where there is a CUDA device.
"""

# Triton gives its decorators no types, and its kernels are not Python.
# mypy: disable-error-code="untyped-decorator, misc, valid-type, name-defined, no-untyped-def"
from __future__ import annotations

from typing import Any

from privfunnel.errors import need
from privfunnel.solvers.aem.state import CUT, ROOT_EVALUATIONS, SLOPE_LIMIT, ZERO

triton: Any = need("triton", extra="gpu")
tl: Any = need("triton.language", extra="gpu")

#: Stands in for +∞ as the upper end of a bracket.
UNBOUNDED = 1.0e300
#: Evaluations before the first check whether all roots are found: checking makes the host wait for the device.
BLIND = 3


@triton.jit
def _rows(
    base, log_w, trial, going, mean_out, spread_out, third_out, n_x, n_y,
    cut: tl.constexpr, zero: tl.constexpr, block: tl.constexpr,
):  # fmt: skip  # pragma: no cover
    """One row of one run: mean, variance and third central moment of log w of (3), weights exp(base + λ log w)."""
    row = tl.program_id(0).to(tl.int64)
    run = row // n_x
    if tl.load(going + run) != 0:
        columns = tl.arange(0, block)
        inside = columns < n_y
        w = tl.load(log_w + row * n_y + columns, mask=inside, other=0.0)
        x = tl.load(base + row * n_y + columns, mask=inside, other=zero) + tl.load(trial + run) * w
        d = x - tl.max(x, axis=0)
        e = tl.where(inside & (d >= cut), tl.exp(d), 0.0)
        total = tl.sum(e, axis=0)
        ew = e * w
        mean = tl.sum(ew, axis=0) / total
        eww = ew * w
        square = tl.sum(eww, axis=0) / total
        tl.store(mean_out + row, mean)
        tl.store(spread_out + row, square - mean * mean)
        tl.store(third_out + row, tl.sum(eww * w, axis=0) / total - mean * (3.0 * square - 2.0 * mean * mean))


@triton.jit
def _bracket(
    mean_in, spread_in, third_in, p_x, target, slack, trial, low, high, best, going, open_count, n_x,
    limit: tl.constexpr, unbounded: tl.constexpr, block: tl.constexpr,
):  # fmt: skip  # pragma: no cover
    """One run: G (3) and its derivatives from its rows, then (4), the safeguarded step of ``arrays.root``."""
    run = tl.program_id(0).to(tl.int64)
    if tl.load(going + run) != 0:
        rows = tl.arange(0, block)
        inside = rows < n_x
        p = tl.load(p_x + rows, mask=inside, other=0.0)
        mean = tl.load(mean_in + run * n_x + rows, mask=inside, other=0.0)
        spread = tl.load(spread_in + run * n_x + rows, mask=inside, other=0.0)
        third = tl.load(third_in + run * n_x + rows, mask=inside, other=0.0)
        value = tl.sum(p * mean, axis=0) - tl.load(target + run)
        gain = tl.sum(p * tl.maximum(spread, 0.0), axis=0)
        here = tl.load(trial + run)
        room = tl.load(slack + run)
        feasible = value >= 0.0
        lower = tl.where(feasible, tl.load(low + run), here)
        upper = tl.where(feasible, here, tl.load(high + run))
        tl.store(low + run, lower)
        tl.store(high + run, upper)
        tl.store(best + run, tl.where(feasible, here, tl.load(best + run)))
        steep = gain > 0.0
        missing = value - 0.5 * room
        halley = gain - 0.5 * missing * tl.sum(p * third, axis=0) / tl.where(steep, gain, 1.0)
        slope = tl.where((0.5 * gain < halley) & (halley < 2.0 * gain), halley, gain)
        newton = here - missing / tl.where(steep, slope, 1.0)
        bounded = upper < unbounded
        middle = tl.where(bounded, 0.5 * (tl.maximum(lower, 0.0) + upper), 2.0 * here + 1.0)
        usable = steep & (newton > lower) & (newton < upper) & (bounded | (newton < 4.0 * here + 4.0))
        chosen = tl.where(usable, newton, middle)
        chosen = tl.where((lower < 0.0) & ((chosen <= 0.0) | (steep & (newton <= 0.0))), 0.0, chosen)
        chosen = tl.where((chosen <= lower) | (chosen >= upper), here, chosen)
        found = feasible & ((value <= room) | (here == 0.0))
        if found | (chosen == here) | (chosen > limit):
            tl.store(going + run, 0)
        else:
            tl.store(trial + run, chosen)
            tl.atomic_add(open_count, 1)


@triton.jit
def _update(
    base, log_w, log_r, best, p_x, log_p_x, log_u, u, mean_out, spread_out, n_x, n_y,
    cut: tl.constexpr, zero: tl.constexpr, block: tl.constexpr,
):  # fmt: skip  # pragma: no cover
    """One row of one run: the new log u (1) and u at λ = best (the old ones where that is −1), and its growth (5)."""
    row = tl.program_id(0).to(tl.int64)
    run = row // n_x
    symbol = row - run * n_x
    columns = tl.arange(0, block)
    inside = columns < n_y
    w = tl.load(log_w + row * n_y + columns, mask=inside, other=zero)
    old = w + tl.load(log_r + run * n_y + columns, mask=inside, other=0.0)
    old = tl.where(w > 0.5 * zero, old, zero)
    slope = tl.load(best + run)
    if slope >= 0.0:
        x = tl.load(base + row * n_y + columns, mask=inside, other=zero) + slope * w
        d = x - tl.max(x, axis=0)
        e = tl.where(inside & (d >= cut), tl.exp(d), 0.0)
        total = tl.sum(e, axis=0)
        new = tl.where(e > 0.0, d - tl.log(total) + tl.load(log_p_x + symbol), zero)
        grown = tl.where(e > 0.0, new - old, 0.0)
        part = e * grown
        mean = tl.sum(part, axis=0) / total
        tl.store(log_u + row * n_y + columns, new, mask=inside)
        tl.store(u + row * n_y + columns, e * (tl.load(p_x + symbol) / total), mask=inside)
        tl.store(mean_out + row, mean)
        tl.store(spread_out + row, tl.sum(part * grown, axis=0) / total - mean * mean)
    else:
        tl.store(log_u + row * n_y + columns, old, mask=inside)
        tl.store(u + row * n_y + columns, tl.exp(old), mask=inside)
        tl.store(mean_out + row, 0.0)
        tl.store(spread_out + row, 0.0)


def _launch(n_y: int) -> dict[str, Any]:
    block = triton.next_power_of_2(n_y)
    return {"block": block, "num_warps": 1 if block <= 256 else 4 if block <= 2048 else 16}


def root(batch: Any, base: Any, log_w: Any, slope: Any, target: Any, slack: Any) -> tuple[Any, Any]:
    """λ (B,) with 0 ≤ G(λ) ≤ ``slack`` or −1, and the last λ tried; see :func:`arrays.root`."""
    xp = batch.xp
    runs, n_x, n_y = base.shape
    trial = xp.clip(slope, 0.0, None).contiguous().clone()
    best, low = xp.full_like(trial, -1.0), xp.full_like(trial, -1.0)
    high = xp.full_like(trial, UNBOUNDED)
    going = xp.ones(runs, dtype=xp.int32, device=base.device)
    mean = xp.empty((runs, n_x), dtype=base.dtype, device=base.device)
    spread, third = xp.empty_like(mean), xp.empty_like(mean)
    for number in range(ROOT_EVALUATIONS):
        open_count = xp.zeros(1, dtype=xp.int32, device=base.device)
        _rows[(runs * n_x,)](
            base, log_w, trial, going, mean, spread, third, n_x, n_y, cut=CUT, zero=ZERO, **_launch(n_y)
        )
        _bracket[(runs,)](
            mean, spread, third, batch.p_x, target, slack, trial, low, high, best, going, open_count, n_x,
            limit=SLOPE_LIMIT, unbounded=UNBOUNDED, block=triton.next_power_of_2(n_x), num_warps=4,
        )  # fmt: skip
        if number + 1 >= BLIND and not int(open_count):
            break
    return best, trial


def update(batch: Any, base: Any, log_w: Any, log_r: Any, best: Any) -> tuple[Any, Any, Any]:
    """New log u and u (B, M, N) at λ = ``best``, and the residual (B,) of the old point."""
    xp = batch.xp
    runs, n_x, n_y = base.shape
    log_u, u = xp.empty_like(base), xp.empty_like(base)
    mean = xp.empty((runs, n_x), dtype=base.dtype, device=base.device)
    spread = xp.empty_like(mean)
    _update[(runs * n_x,)](
        base, log_w, log_r.contiguous(), best, batch.p_x, batch.log_p_x, log_u, u, mean, spread, n_x, n_y,
        cut=CUT, zero=ZERO, **_launch(n_y),
    )  # fmt: skip
    return log_u, u, xp.sqrt((xp.clip(spread, 0.0, None) * batch.p_x).sum(axis=-1))

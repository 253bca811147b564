"""The inner loops of AEM on a CUDA device: momentum, the search for λ and the update, in few passes over memory.

The eager operations of PyTorch write and read the M×N table of every run a dozen times for one evaluation of
G, and spend as long again on launching the small operations between. Here an evaluation reads the two tables
it needs once and writes two numbers a row, runs whose λ is found cost nothing, and one small kernel moves all brackets.

Imported only where a CUDA device is used; without Triton the eager operations do the same work. Equations (1) to (5)
are those of :mod:`privfunnel.algorithms.aem.state`; the tests marked ``gpu`` compare both kernels with
:mod:`privfunnel.algorithms.aem.arrays` where there is a CUDA device.
"""

# Triton gives its decorators no types, and its kernels are not Python.
# mypy: disable-error-code="untyped-decorator, misc, valid-type, name-defined, no-untyped-def"
from __future__ import annotations

from typing import Any

from privfunnel.algorithms.aem.state import CUT, ROOT_EVALUATIONS, SLOPE_LIMIT, ZERO
from privfunnel.errors import need
from privfunnel.infra.storage import Document

triton: Any = need("triton", extra="gpu")
tl: Any = need("triton.language", extra="gpu")

#: Stands in for +∞ as the upper end of a bracket.
UNBOUNDED = 1.0e300
#: Rows up to this long are gone along by one warp, in pieces of ``SHORT``; longer ones in pieces of ``LONG``: entries
#: of a piece, and warps.
SHORT_ROW = 1024
SHORT, LONG = (32, 1), (512, 8)
#: Outputs that one program turns into logarithms.
OUTPUTS = 128


@triton.jit
def _outputs(
    p_sy, log_p_s, log_t_out, log_r_out, leakage_out, n_s, n_y, block: tl.constexpr
):  # pragma: no cover
    """Some outputs of one run: log p(y), log p(s|y) (0 for a zero) and their share of the leakage."""
    run = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * block + tl.arange(0, block)
    inside = columns < n_y
    first = run * n_s * n_y + columns
    r = tl.zeros([block], tl.float64)
    for k in range(n_s):
        r += tl.load(p_sy + first + k * n_y, mask=inside, other=0.0)
    log_r = tl.log(tl.where(r > 0.0, r, 1.0))
    leakage = tl.zeros([block], tl.float64)
    for k in range(n_s):
        p = tl.load(p_sy + first + k * n_y, mask=inside, other=0.0)
        log_t = tl.where(p > 0.0, tl.log(tl.where(p > 0.0, p, 1.0)) - log_r, 0.0)
        tl.store(log_t_out + first + k * n_y, log_t, mask=inside)
        leakage += p * (log_t - tl.load(log_p_s + k))
    tl.store(log_r_out + run * n_y + columns, log_r, mask=inside)
    tl.store(leakage_out + run * n_y + columns, leakage, mask=inside)


@triton.jit
def _chunk(product, log_u, log_r, row, run, at, n_y, eta, slope, zero: tl.constexpr):  # pragma: no cover
    """Part of a row of one run: log w of (2), and the exponents base + λ log w of (1), ``zero`` outside the row."""
    inside = at < n_y
    log = tl.load(log_u + row * n_y + at, mask=inside, other=zero)
    w = log - tl.load(log_r + run * n_y + at, mask=inside, other=0.0)
    base = log - eta * tl.load(product + row * n_y + at, mask=inside, other=0.0)
    return log, tl.where(inside, w, 0.0), tl.where(inside, base + slope * w, zero)


@triton.jit
def _rows(
    product, log_u, log_r, eta, trial, going, mean_out, spread_out, third_out, n_x, n_y,
    cut: tl.constexpr, zero: tl.constexpr, block: tl.constexpr, chunks: tl.constexpr,
):  # fmt: skip  # pragma: no cover
    """One row of one run: mean, variance and third central moment of log w of (3), weights exp(base + λ log w)."""
    row = tl.program_id(0).to(tl.int64)
    run = row // n_x
    if tl.load(going + run) != 0:
        step, slope = tl.load(eta + run), tl.load(trial + run)
        columns = tl.arange(0, block)
        tops = tl.full([block], zero, tl.float64)
        for c in range(chunks):
            at = columns + c * block
            _, _, x = _chunk(product, log_u, log_r, row, run, at, n_y, step, slope, zero)
            tops = tl.maximum(tops, x)
        top = tl.max(tops, axis=0)
        # The row is in the cache the second time; adding up chunk by chunk leaves one reduction at the end.
        zeroth = tl.zeros([block], tl.float64)
        first, second, cubes = zeroth, zeroth, zeroth
        for c in range(chunks):
            at = columns + c * block
            _, w, x = _chunk(product, log_u, log_r, row, run, at, n_y, step, slope, zero)
            e = tl.where((at < n_y) & (x - top >= cut), tl.exp(x - top), 0.0)
            ew = e * w
            eww = ew * w
            zeroth += e
            first += ew
            second += eww
            cubes += eww * w
        total = tl.sum(zeroth, axis=0)
        mean = tl.sum(first, axis=0) / total
        square = tl.sum(second, axis=0) / total
        tl.store(mean_out + row, mean)
        tl.store(spread_out + row, square - mean * mean)
        tl.store(third_out + row, tl.sum(cubes, axis=0) / total - mean * (3.0 * square - 2.0 * mean * mean))


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
    product, log_u, log_r, eta, best, p_x, log_p_x, new_out, u_out, mean_out, spread_out, n_x, n_y,
    cut: tl.constexpr, zero: tl.constexpr, block: tl.constexpr, chunks: tl.constexpr,
):  # fmt: skip  # pragma: no cover
    """One row of one run: the new log u (1) and u at λ = best (the old ones where that is −1), and its growth (5)."""
    row = tl.program_id(0).to(tl.int64)
    run = row // n_x
    symbol = row - run * n_x
    columns = tl.arange(0, block)
    step, slope = tl.load(eta + run), tl.load(best + run)
    if slope >= 0.0:
        tops = tl.full([block], zero, tl.float64)
        for c in range(chunks):
            at = columns + c * block
            _, _, x = _chunk(product, log_u, log_r, row, run, at, n_y, step, slope, zero)
            tops = tl.maximum(tops, x)
        top = tl.max(tops, axis=0)
        sums = tl.zeros([block], tl.float64)
        for c in range(chunks):
            at = columns + c * block
            _, _, x = _chunk(product, log_u, log_r, row, run, at, n_y, step, slope, zero)
            sums += tl.where((at < n_y) & (x - top >= cut), tl.exp(x - top), 0.0)
        total = tl.sum(sums, axis=0)
        shift = tl.load(log_p_x + symbol) - tl.log(total)
        scale = tl.load(p_x + symbol) / total
        first = tl.zeros([block], tl.float64)
        second = first
        for c in range(chunks):
            at = columns + c * block
            inside = at < n_y
            old, _, x = _chunk(product, log_u, log_r, row, run, at, n_y, step, slope, zero)
            d = x - top
            e = tl.where(inside & (d >= cut), tl.exp(d), 0.0)
            new = tl.where(e > 0.0, d + shift, zero)
            grown = tl.where(e > 0.0, new - old, 0.0)
            first += e * grown
            second += e * grown * grown
            tl.store(new_out + row * n_y + at, new, mask=inside)
            tl.store(u_out + row * n_y + at, e * scale, mask=inside)
        mean = tl.sum(first, axis=0) / total
        tl.store(mean_out + row, mean)
        tl.store(spread_out + row, tl.sum(second, axis=0) / total - mean * mean)
    else:
        for c in range(chunks):
            at = columns + c * block
            inside = at < n_y
            old = tl.load(log_u + row * n_y + at, mask=inside, other=zero)
            tl.store(new_out + row * n_y + at, old, mask=inside)
            tl.store(u_out + row * n_y + at, tl.exp(old), mask=inside)
        tl.store(mean_out + row, 0.0)
        tl.store(spread_out + row, 0.0)


@triton.jit
def _momentum(
    now, before, beta, p_x, log_p_x, new_out, u_out, n_x, n_y,
    cut: tl.constexpr, zero: tl.constexpr, block: tl.constexpr, chunks: tl.constexpr,
):  # fmt: skip  # pragma: no cover
    """One row of one run: log u and u of the point that momentum leads to."""
    row = tl.program_id(0).to(tl.int64)
    run = row // n_x
    symbol = row - run * n_x
    columns = tl.arange(0, block)
    far = tl.load(beta + run)
    tops = tl.full([block], 4.0 * zero, tl.float64)
    for c in range(chunks):
        at = columns + c * block
        inside = at < n_y
        last = tl.load(now + row * n_y + at, mask=inside, other=4.0 * zero)
        tops = tl.maximum(
            tops, last + far * (last - tl.load(before + row * n_y + at, mask=inside, other=4.0 * zero))
        )
    top = tl.max(tops, axis=0)
    sums = tl.zeros([block], tl.float64)
    for c in range(chunks):
        at = columns + c * block
        inside = at < n_y
        last = tl.load(now + row * n_y + at, mask=inside, other=zero)
        d = last + far * (last - tl.load(before + row * n_y + at, mask=inside, other=zero)) - top
        sums += tl.where(inside & (d >= cut), tl.exp(d), 0.0)
    total = tl.sum(sums, axis=0)
    shift = tl.load(log_p_x + symbol) - tl.log(total)
    scale = tl.load(p_x + symbol) / total
    for c in range(chunks):
        at = columns + c * block
        inside = at < n_y
        last = tl.load(now + row * n_y + at, mask=inside, other=zero)
        d = last + far * (last - tl.load(before + row * n_y + at, mask=inside, other=zero)) - top
        e = tl.where(inside & (d >= cut), tl.exp(d), 0.0)
        tl.store(new_out + row * n_y + at, tl.where(e > 0.0, d + shift, zero), mask=inside)
        tl.store(u_out + row * n_y + at, e * scale, mask=inside)


@triton.jit
def _keep(better, new, now, before, n_x, n_y, block: tl.constexpr, chunks: tl.constexpr):  # pragma: no cover
    """One row of one run: where its step was taken back, ``now`` moves to ``new`` and ``before`` to ``now``."""
    row = tl.program_id(0).to(tl.int64)
    if tl.load(better + row // n_x) == 0:
        columns = tl.arange(0, block)
        for c in range(chunks):
            at = columns + c * block
            inside = at < n_y
            last = tl.load(now + row * n_y + at, mask=inside)
            previous = tl.load(before + row * n_y + at, mask=inside)
            tl.store(new + row * n_y + at, last, mask=inside)
            tl.store(now + row * n_y + at, previous, mask=inside)


def _launch(n_y: int) -> Document:
    """How a row is cut: one warp goes along a short row, eight along a long one; both were measured."""
    block, warps = SHORT if n_y <= SHORT_ROW else LONG
    return {"block": block, "chunks": -(-n_y // block), "num_warps": warps}


def outputs(batch: Any, p_sy: Any) -> tuple[Any, Any, Any]:
    """Log p(s|y) (B, K, N), log p(y) (B, 1, N) and leakage (B,) of p(s, y); see :func:`arrays.outputs`."""
    xp = batch.xp
    runs, n_s, n_y = p_sy.shape
    log_t = xp.empty_like(p_sy)
    log_r = xp.empty((runs, 1, n_y), dtype=p_sy.dtype, device=p_sy.device)
    leakage = xp.empty((runs, n_y), dtype=p_sy.dtype, device=p_sy.device)
    _outputs[(runs, -(-n_y // OUTPUTS))](
        p_sy, batch.log_p_s, log_t, log_r, leakage, n_s, n_y, block=OUTPUTS, num_warps=OUTPUTS // 32
    )
    return log_t, log_r, leakage.sum(axis=-1)


def root(batch: Any, aim: Any, slope: Any, target: Any, slack: Any) -> Any:
    """λ (B,) with 0 ≤ G(λ) ≤ ``slack``, or −1; see :func:`arrays.root`."""
    xp = batch.xp
    runs, n_x, n_y = aim.log_u.shape
    device = aim.log_u.device
    trial = xp.clip(slope, 0.0, None)
    ends = xp.full((3, runs), -1.0, dtype=trial.dtype, device=device)
    low, high, best = ends
    high.fill_(UNBOUNDED)
    going = xp.ones(runs, dtype=xp.int32, device=device)
    open_counts = xp.zeros(ROOT_EVALUATIONS, dtype=xp.int32, device=device)
    mean, spread, third = xp.empty((3, runs, n_x), dtype=trial.dtype, device=device)
    for number in range(ROOT_EVALUATIONS):
        _rows[(runs * n_x,)](
            aim.product, aim.log_u, aim.log_r, aim.eta, trial, going, mean, spread, third, n_x, n_y,
            cut=CUT, zero=ZERO, **_launch(n_y),
        )  # fmt: skip
        _bracket[(runs,)](
            mean, spread, third, batch.p_x, target, slack, trial, low, high, best, going, open_counts[number:], n_x,
            limit=SLOPE_LIMIT, unbounded=UNBOUNDED, block=triton.next_power_of_2(n_x), num_warps=4,
        )  # fmt: skip
        # Evaluations before the first check whether all roots are found: checking makes the host wait for the device.
        if number + 1 >= 3 and not int(open_counts[number]):
            break
    return best


def update(batch: Any, aim: Any, best: Any) -> tuple[Any, Any, Any, Any]:
    """New log u and u (B, M, N) at λ = ``best``, growth and divergence (B,); see :class:`arrays.Move`."""
    xp = batch.xp
    runs, n_x, n_y = aim.log_u.shape
    new, u = xp.empty_like(aim.log_u), xp.empty_like(aim.log_u)
    mean, spread = xp.empty((2, runs, n_x), dtype=new.dtype, device=new.device)
    _update[(runs * n_x,)](
        aim.product, aim.log_u, aim.log_r, aim.eta, best, batch.p_x, batch.log_p_x, new, u, mean, spread, n_x, n_y,
        cut=CUT, zero=ZERO, **_launch(n_y),
    )  # fmt: skip
    growth = xp.sqrt(xp.clip(spread, 0.0, None) @ batch.p_x)
    return new, u, growth, xp.clip(mean @ batch.p_x, 0.0, None)


def momentum(batch: Any, now: Any, before: Any, beta: Any) -> tuple[Any, Any]:
    """Log u and u (B, M, N); see :func:`arrays.momentum`."""
    xp = batch.xp
    runs, n_x, n_y = now.shape
    new, u = xp.empty_like(now), xp.empty_like(now)
    _momentum[(runs * n_x,)](
        now, before, beta, batch.p_x, batch.log_p_x, new, u, n_x, n_y, cut=CUT, zero=ZERO, **_launch(n_y)
    )
    return new, u


def chosen(better: Any, new: Any, now: Any, before: Any) -> tuple[Any, Any]:
    """The last two points (B, M, N) after a trial, in place of ``new`` and ``now``; see :func:`arrays.chosen`."""
    runs, n_x, n_y = new.shape
    _keep[(runs * n_x,)](better.int(), new, now, before, n_x, n_y, **_launch(n_y))
    return new, now

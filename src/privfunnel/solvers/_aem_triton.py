"""The search for λ on a CUDA device: G and its derivative for a batch in one pass over memory.

The eager operations of PyTorch write and read the M×N table of every run a dozen times for one evaluation of
G. This kernel reads the two tables it needs once and writes two numbers a row; runs whose λ is found already
cost nothing. Imported only where a CUDA device is used; without Triton the eager operations do the same work.
"""

# Triton gives its decorators no types.
# mypy: disable-error-code="untyped-decorator, misc, valid-type, name-defined"
from __future__ import annotations

from typing import Any

from privfunnel.errors import need
from privfunnel.solvers._aem_step import CUT, ZERO

triton: Any = need("triton", extra="gpu")
tl: Any = need("triton.language", extra="gpu")


@triton.jit
def _rows(  # type: ignore[no-untyped-def]  # pragma: no cover
    base, log_w, slope, wanted, mean_out, spread_out, n_x, n_y,
    cut: tl.constexpr, zero: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """One row of one run: mean and variance of log w under the weights exp(base + λ log w)."""
    row = tl.program_id(0).to(tl.int64)
    run = row // n_x
    if tl.load(wanted + run) != 0:
        lam = tl.load(slope + run)
        columns = tl.arange(0, block)
        inside = columns < n_y
        w = tl.load(log_w + row * n_y + columns, mask=inside, other=0.0)
        x = tl.load(base + row * n_y + columns, mask=inside, other=zero) + lam * w
        d = x - tl.max(x, axis=0)
        e = tl.where(inside & (d >= cut), tl.exp(d), 0.0)
        total = tl.sum(e, axis=0)
        ew = e * w
        mean = tl.sum(ew, axis=0) / total
        tl.store(mean_out + row, mean)
        tl.store(spread_out + row, tl.sum(ew * w, axis=0) / total - mean * mean)


def sums(base: Any, log_w: Any, slope: Any, wanted: Any, mean: Any, spread: Any) -> None:
    """Fill ``mean`` and ``spread`` (B, M) of the runs that are ``wanted`` (B,).

    Args:
        base: log u − Σ s log t, shape (B, M, N), contiguous, double precision, on a CUDA device.
        log_w: log p(x|y), likewise.
        slope: λ, shape (B,).
        wanted: Which runs to evaluate, bool, shape (B,).
        mean: Σ_j softmax_j log w_j of each row; left as it is for the other runs.
        spread: The variance of log w under the same weights.
    """
    runs, n_x, n_y = base.shape
    block = triton.next_power_of_2(n_y)
    warps = 1 if block <= 256 else 4 if block <= 1024 else 16
    _rows[(runs * n_x,)](
        base, log_w, slope, wanted.to(base.dtype), mean, spread, n_x, n_y, cut=CUT, zero=ZERO, block=block,
        num_warps=warps,
    )  # fmt: skip

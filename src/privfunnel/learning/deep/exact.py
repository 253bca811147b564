"""What a learnt encoder discloses and leaks where X has finitely many values: by enumeration, not by its own losses."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from privfunnel import measures
from privfunnel.errors import InvalidInputError
from privfunnel.learning.deep.methods.base import Method
from privfunnel.learning.deep.randomness import Noise
from privfunnel.learning.deep.tensors import Params, Tensor, torch
from privfunnel.measures import Array

#: Numbers that are held at a time, on a CPU and on a GPU.
_CELLS, _CELLS_GPU = 2**22, 2**27


class Informations(NamedTuple):
    """Disclosure I(X;Y) and leakage I(S;Y) in nats, each with its standard error: 0 where symbols were enumerated."""

    disclosure: float
    leakage: float
    disclosure_error: float = 0.0
    leakage_error: float = 0.0


def member(params: Params, number: int) -> Params:
    """One member's parameters, as a batch of one."""
    return {name: value[number : number + 1] for name, value in params.items()}


def mean_rate(method: Method, params: Params, rows: Array) -> float:
    """Mean rate of some rows (n, width), in nats: at least I(X;Y) there. Infinite for records, which have none."""
    if method.code.kind == "record":
        return math.inf
    like = params["encoder.0.weight"]
    with torch.no_grad():
        output = method.encode(params, torch.as_tensor(rows).to(like)[None])
        noise = Noise(torch.zeros(1, dtype=torch.int64, device=like.device), 0, like.dtype)
        return float(method.code.draw(params, output, noise).rate.mean())


def channel(method: Method, params: Params, symbols: Array) -> Array:
    """p(y|x) of a discrete code.

    Args:
        method: The method.
        params: Parameters of one member.
        symbols: The rows of X's matrix, one a public symbol, shape (M, width).

    Returns:
        Shape (M, N), rows sum to 1.
    """
    if method.code.kind != "discrete":
        raise InvalidInputError(f"a {method.code.kind} code has no channel: its informations are sampled")
    with torch.no_grad():
        rows = torch.as_tensor(symbols).to(params["encoder.0.weight"])
        made = torch.softmax(method.encode(params, rows[None]).double(), -1)[0]
    found: Array = made.cpu().numpy()
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def informations(
    method: Method, params: Params, symbols: Array, p_sx: Array, draws: int = 8192
) -> Informations:
    """I(X;Y) and I(S;Y) of one member on a table: exact for discrete codes, sampled with exact densities for others.

    For a code with a density, y is drawn from x ~ p(x) and ``log q(y|x)/p(y)`` and ``Σ_s p(s|x) log p(y|s)/p(y)`` are
    averaged; p(y) and p(y|s) are sums over all of X, so that the averages are unbiased whatever the encoder.

    Args:
        method: The method.
        params: Parameters of one member.
        symbols: The rows of X's matrix, one a public symbol, shape (M, width).
        p_sx: p(s, x), shape (K, M).
        draws: Draws of y.
    """
    p_x = p_sx.sum(axis=0)
    if method.code.kind == "discrete":
        made = channel(method, params, symbols)
        return Informations(
            float(measures.mutual_information(p_x[:, None] * made)),
            float(measures.mutual_information(p_sx @ made)),
        )
    like = params["encoder.0.weight"]
    with torch.no_grad():
        rows = torch.as_tensor(symbols).to(like)
        output = method.code.complete(params, method.encode(params, rows[None]))[0]
        joint = torch.as_tensor(p_sx).to(like)
        # Each symbol as often as its probability says, up to one draw: less variance than drawing it.
        edges = np.cumsum(p_x)
        x = np.searchsorted(edges / edges[-1], (np.arange(draws) + 0.5) / draws).clip(0, len(p_x) - 1)
        chosen = torch.as_tensor(x, device=like.device)
        noise = Noise(torch.zeros(1, dtype=torch.int64, device=like.device), 0, like.dtype)
        drawn = method.code.draw(params, method.encode(params, rows[chosen][None]), noise).y[0]
        cells = _CELLS if like.device.type == "cpu" else _CELLS_GPU
        size = max(cells // (len(p_x) * output.shape[1]), 1)
        parts = [_log_ratios(method, output, joint, y, at) for y, at in _pairs(drawn, chosen, size)]
    told, leaked = (torch.cat(column).double().cpu().numpy() for column in zip(*parts, strict=True))
    disclosure, disclosure_error = measures.sampled_information(told)
    leakage, leakage_error = measures.sampled_information(leaked)
    return Informations(disclosure, leakage, disclosure_error, leakage_error)


def _pairs(y: Tensor, x: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    return list(zip(y.split(size), x.split(size), strict=True))


def _log_ratios(method: Method, output: Tensor, p_sx: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """``log q(y|x)/p(y)`` and ``Σ_s p(s|x) log p(y|s)/p(y)`` of draws y (n, size) from symbols x (n,)."""
    logs = method.code.log_density(output[None], y[:, None])
    own = logs.gather(1, x[:, None])[:, 0]
    top = logs.amax(1)
    joint = torch.exp(logs - top[:, None]) @ p_sx.T  # p(s, y) of each draw, up to a factor
    p_y, p_s = joint.sum(1), p_sx.sum(1)
    given_x = (p_sx / p_sx.sum(0))[:, x].T
    lifts = torch.log(joint.clamp_min(1e-37)) - torch.log(p_s) - torch.log(p_y)[:, None]
    return own - top - torch.log(p_y), (given_x * lifts).sum(1)

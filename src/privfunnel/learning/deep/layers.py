"""Many small networks as one: stacked layers over a leading axis of members."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from privfunnel.learning.deep.randomness import START, uniform
from privfunnel.learning.deep.tensors import Params, Tensor, torch

#: Widths of a network's layers, from input to output.
Widths = tuple[int, ...]


def start(networks: Mapping[str, Widths], seeds: Tensor, dtype: Tensor) -> Params:
    """First weights of each network and member, uniform with variance 1/inputs; biases are 0.

    Args:
        networks: Widths by name.
        seeds: One a member, shape (B,).
        dtype: Precision.

    Returns:
        ``name.0.weight`` (B, in, out), ``name.0.bias`` (B, 1, out), and so on.
    """
    params: Params = {}
    layer = 0
    for name in sorted(networks):
        for depth, (wide, narrow) in enumerate(itertools.pairwise(networks[name])):
            if wide:  # a network without inputs is its bias alone
                numbers = uniform(seeds, START, layer, (wide, narrow)).to(dtype)
                params[f"{name}.{depth}.weight"] = (2.0 * numbers - 1.0) * (3.0 / wide) ** 0.5
            params[f"{name}.{depth}.bias"] = torch.zeros(
                (len(seeds), 1, narrow), dtype=dtype, device=seeds.device
            )
            layer += 1
    return params


def apply(params: Params, name: str, values: Tensor) -> Tensor:
    """Outputs of the network ``name``, (B, n, out), for inputs (B, n, in); the inner layers have SiLU units."""
    depth = 0
    while f"{name}.{depth}.weight" in params:
        if depth:
            values = torch.nn.functional.silu(values)
        values = torch.baddbmm(params[f"{name}.{depth}.bias"], values, params[f"{name}.{depth}.weight"])
        depth += 1
    return values

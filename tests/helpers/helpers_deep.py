"""Small objectives, rows and batches for the tests of deep funnels; the tests skip before they import this."""

from __future__ import annotations

import numpy as np
import torch

from privfunnel.learning.deep.codes import Code
from privfunnel.learning.deep.layout import Layout
from privfunnel.learning.deep.methods import METHODS, Batch, Method, Variables
from privfunnel.learning.deep.methods.ppan import record_code

RNG = np.random.default_rng(11)
#: The forms of every method; each is an objective of its own.
FORMS: dict[str, tuple[str, dict[str, object]]] = {
    "vpaf": ("vpaf", {}),
    "club-p1": ("club", {"form": "P1"}),
    "club-p3": ("club", {"form": "P3"}),
    "dvpf-upper": ("dvpf", {"bound": "upper"}),
    "dvpf-lower": ("dvpf", {"bound": "lower"}),
    "dca": ("dca", {}),
    "ppan": ("ppan", {}),
    "alr": ("alr", {}),
}
NUMBERS = Variables(Layout(3), Layout(0, (2,)))
CELLS = Variables(Layout(0, (4,)), Layout(0, (3,)))


def table(n_s: int = 3, n_x: int = 4) -> np.ndarray:
    return np.random.default_rng(5).dirichlet(np.ones(n_s * n_x)).reshape(n_s, n_x)


def made(form: str, variables: Variables, code: Code, **more: object) -> Method:
    name, options = FORMS[form]
    if name == "ppan":
        code = record_code(variables.x)
    return METHODS[name](variables=variables, code=code, hidden=(5,), **{**options, **more})


def doubled(seeds: list[int]) -> torch.Tensor:
    return torch.tensor(seeds, dtype=torch.int64)


def batch_of(variables: Variables, n: int, members: int, strength: float = 0.7) -> Batch:
    rng = np.random.default_rng(3)

    def rows(layout: Layout) -> torch.Tensor:
        parts = [rng.standard_normal((n, layout.numbers))]
        parts += [np.eye(size)[rng.integers(0, size, n)] for size in layout.groups]
        return torch.tensor(np.concatenate(parts, axis=1)).expand(members, -1, -1)

    x, s = rows(variables.x), rows(variables.s)
    u = x if variables.u is None else rows(variables.u)
    return Batch(x, s, u, None, torch.full((members,), strength, dtype=torch.float64), s[0].mean(0))

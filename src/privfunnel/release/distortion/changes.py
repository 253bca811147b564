"""How much of the records a release of records leaves as it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from privfunnel.data.engines import Alphabet
from privfunnel.measures import Array


def unchanged(channel: Array, p_x: Array, outputs: Any, public: Alphabet) -> tuple[float, dict[str, float]]:
    """The share of records that are released as they are, and the same of each public column.

    Args:
        channel: p(y|x), shape (M, N).
        p_x: p(x), shape (M,).
        outputs: The public symbol that each output is, shape (N,).
        public: The M public symbols.
    """
    p_xy = channel * p_x[:, None]
    whole = float(p_xy[outputs, np.arange(len(outputs))].sum())
    columns = {
        name: float(p_xy[codes[:, None] == codes[outputs]].sum())
        for name, codes in zip(public.names, public.codes.T, strict=True)
    }
    return min(whole, 1.0), {name: min(share, 1.0) for name, share in columns.items()}

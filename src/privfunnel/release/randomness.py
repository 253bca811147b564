"""Uniform numbers: from the operating system for a release, from a seed for an experiment."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from privfunnel.infra.checks import check_seed
from privfunnel.measures import Array

Uniforms = Callable[[int], Array]


def secure(size: int) -> Array:
    """``size`` numbers uniform in [0, 1) with 53 random bits each, from the operating system's secure source."""
    bits = np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53)


def seeded(seed: int, *stream: int) -> Uniforms:
    """Reproducible numbers; whoever knows the seed can replay the draws, so this is for experiments only.

    Args:
        seed: A whole number ≥ 0.
        stream: Numbers that tell independent parts apart, e.g. the partition.
    """
    check_seed(seed)
    key: Sequence[int] = (seed, *stream)
    generator = np.random.default_rng(key if stream else seed)
    return generator.random


#: Numbers that tell the streams of one seed apart; the rows' draws have none.
STREAMS = {"order": 1, "decoys": 2}


def chosen_uniforms(seed: int | None, purpose: str = "") -> Uniforms:
    """Secure numbers or, for experiments, those of a seed: a stream of its own for each purpose."""
    if seed is None:
        return secure
    return seeded(seed, STREAMS[purpose]) if purpose else seeded(seed)

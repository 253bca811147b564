"""Random numbers without a state: each is a function of a seed, a stream, a step and its place.

A member of a batch draws from its own seed alone, so that it learns the same whoever is trained beside it, and a run
that was interrupted needs nothing but its step to go on. The mixing function is that of SplitMix64 (Steele, Lea, Flood
2014), in the wrapping arithmetic of 64-bit integers; it is no cryptography, and releases do not use it.
"""

from __future__ import annotations

import math

from privfunnel.learning.deep.tensors import Tensor, torch

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)
#: Bits of a uniform number: with half a unit added each is a number of single precision, and neither 0 nor 1.
_BITS = 23


def uniform(seeds: Tensor, stream: int, step: int, shape: tuple[int, ...]) -> Tensor:
    """Uniform numbers in (0, 1).

    Args:
        seeds: One a member, shape (B,), 64-bit integers.
        stream: Which of a member's streams.
        step: Which step of the stream.
        shape: Shape of the numbers of one member.

    Returns:
        Shape (B, *shape), single precision.
    """
    count = math.prod(shape)
    key = _mix(_mix(seeds + _wrapped(_GOLDEN * (stream + 1))) + _wrapped(_GOLDEN * (step + 1)))
    place = torch.arange(1, count + 1, device=seeds.device, dtype=torch.int64) * _GOLDEN
    mixed = _mix(key[:, None] + place[None, :])
    kept = _shifted(mixed, 64 - _BITS).to(torch.float32)
    return ((kept + 0.5) * 2.0**-_BITS).reshape(len(seeds), *shape)


def _wrapped(value: int) -> int:
    """As a signed integer of 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _mix(value: Tensor) -> Tensor:
    value = (value ^ _shifted(value, 30)) * _FIRST
    value = (value ^ _shifted(value, 27)) * _SECOND
    return value ^ _shifted(value, 31)


def _shifted(value: Tensor, bits: int) -> Tensor:
    """Shifted to the right without its sign."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


class Noise:
    """Uniform numbers for one step of every member; each purpose has a stream of its own.

    Args:
        seeds: One a member, shape (B,).
        step: The step.
        dtype: Precision of the numbers.
    """

    def __init__(self, seeds: Tensor, step: int, dtype: Tensor) -> None:
        self.seeds, self.step, self.dtype = seeds, step, dtype

    def uniform(self, stream: int, shape: tuple[int, ...]) -> Tensor:
        """Uniform numbers in (0, 1), shape (B, *shape)."""
        return uniform(self.seeds, stream, self.step, shape).to(self.dtype)


#: Streams: what a random number is for.
START, ORDER, CODE, PRIOR, OUTPUT = range(5)

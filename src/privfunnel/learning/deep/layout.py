"""What the columns of a matrix mean: numbers first, then one group of columns for each category."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from privfunnel.errors import InvalidInputError
from privfunnel.learning.deep.tensors import Tensor, torch
from privfunnel.measures import xlogx

#: Standard deviations of a predicted number lie within these bounds, in units of the column's own. The lower one is the
#: resolution at which numbers count as told: without it a density, and with it I(X;Y), has no bound.
FINEST, COARSEST = 0.1, 10.0
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Layout:
    """Columns of a matrix.

    Attributes:
        numbers: How many columns, the first ones, are numbers in units of their standard deviations.
        groups: For each category after them, how many columns it takes, one a value, with a single 1 in each row.
    """

    numbers: int
    groups: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.numbers < 0 or any(size < 1 for size in self.groups) or not self.width:
            raise InvalidInputError(f"{self!r} has no columns: give numbers or groups of columns")

    @property
    def width(self) -> int:
        """Columns in all."""
        return self.numbers + sum(self.groups)

    @property
    def outputs(self) -> int:
        """What a network has to give to predict a row: mean and log deviation of a number, a logit for each value."""
        return 2 * self.numbers + sum(self.groups)

    @property
    def categorical(self) -> bool:
        """Whether there are no numbers."""
        return self.numbers == 0

    def _parts(self, output: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Means and log deviations (…, numbers), and the logits of each group."""
        mean, spread = output[..., : self.numbers], output[..., self.numbers : 2 * self.numbers]
        low, high = math.log(FINEST), math.log(COARSEST)
        # A sigmoid, not a cut: outside a cut's bounds there would be no gradient to come back by.
        spread = low + (high - low) * torch.sigmoid(spread)
        return mean, spread, list(output[..., 2 * self.numbers :].split(list(self.groups), dim=-1))

    def log_likelihood(self, x: Tensor, output: Tensor) -> Tensor:
        """``log q(x)`` of each row in nats: normal densities for numbers, probabilities for categories.

        Args:
            x: Rows, shape (…, width).
            output: What a network predicts for each, shape (…, outputs).
        """
        mean, spread, groups = self._parts(output)
        total = torch.zeros(output.shape[:-1], dtype=output.dtype, device=output.device)
        if self.numbers:
            z = (x[..., : self.numbers] - mean) * torch.exp(-spread)
            total = total - (0.5 * z * z + spread + _HALF_LOG_2PI).sum(-1)
        at = self.numbers
        for logits in groups:
            size = logits.shape[-1]
            total = total + (x[..., at : at + size] * torch.log_softmax(logits, -1)).sum(-1)
            at += size
        return total

    def information(self, mean: NDArray[Any]) -> float:
        """What the columns tell at most, in nats: the entropies of categories, and numbers to their resolution.

        Args:
            mean: Mean of each column, shape (width,): frequencies of values.
        """
        return -float(xlogx(mean[self.numbers :]).sum()) - self.numbers * math.log(FINEST)

    def divergence(self, output: Tensor, mean: Tensor) -> Tensor:
        """``D(q‖p)`` of each row in nats, from what is predicted to the frequencies.

        Args:
            output: Predictions, shape (…, outputs).
            mean: Mean of each column, shape (width,): frequencies of values; numbers have the standard normal density.
        """
        centre, spread, groups = self._parts(output)
        total = torch.zeros(output.shape[:-1], dtype=output.dtype, device=output.device)
        if self.numbers:
            total = total + (0.5 * (torch.exp(2.0 * spread) + centre * centre - 1.0) - spread).sum(-1)
        at = self.numbers
        for logits in groups:
            size = logits.shape[-1]
            logs = torch.log_softmax(logits, -1)
            frequent = mean[at : at + size].clamp_min(1e-12)
            total = total + (logs.exp() * (logs - frequent.log())).sum(-1)
            at += size
        return total

    def draw(self, output: Tensor, uniform: Tensor) -> Tensor:
        """Rows drawn from a prediction, with a gradient: reparametrised numbers, straight-through categories.

        Args:
            output: Predictions, shape (…, outputs).
            uniform: Numbers in (0, 1), shape (…, width).
        """
        mean, spread, groups = self._parts(output)
        parts = []
        if self.numbers:
            parts.append(mean + torch.exp(spread) * normal(uniform[..., : self.numbers]))
        at = self.numbers
        for logits in groups:
            size = logits.shape[-1]
            parts.append(straight_through(logits, uniform[..., at : at + size]))
            at += size
        return torch.cat(parts, -1)

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """Mean over the columns of the squared difference of numbers and of whether categories differ, (…,)."""
        total = torch.zeros(x.shape[:-1], dtype=y.dtype, device=y.device)
        if self.numbers:
            total = total + ((x - y)[..., : self.numbers] ** 2).sum(-1)
        if self.groups:
            same = (x * y)[..., self.numbers :].sum(-1)
            total = total + len(self.groups) - same
        return total / (self.numbers + len(self.groups))


def normal(uniform: Tensor) -> Tensor:
    """Standard normal numbers from uniform ones."""
    return math.sqrt(2.0) * torch.erfinv(2.0 * uniform - 1.0)


def straight_through(logits: Tensor, uniform: Tensor, temperature: float = 1.0) -> Tensor:
    """One value of each row with its probability, as a row of 0s and a 1, with the gradient of a Gumbel softmax.

    Args:
        logits: Shape (…, values).
        uniform: Numbers in (0, 1), the same shape.
        temperature: Of the softmax that lends its gradient.
    """
    noisy = logits - torch.log(-torch.log(uniform))
    soft = torch.softmax(noisy / temperature, -1)
    hard = torch.nn.functional.one_hot(noisy.argmax(-1), logits.shape[-1]).to(soft.dtype)
    return hard + soft - soft.detach()

"""What an encoder may release: Gaussian or Laplace codes, one of N symbols, or a record like the ones it is given.

An encoder's network gives the parameters of q(y|x); a code says how to draw Y from them, with a gradient, and what the
draw costs: the *rate* ``D(q(y|x)‖r(y))``, whose mean over x is an upper bound of I(X;Y) for any fixed r.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import ClassVar, NamedTuple

from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import is_number, is_whole
from privfunnel.infra.storage import Document
from privfunnel.learning.deep.layers import Widths
from privfunnel.learning.deep.layout import Layout, normal, straight_through
from privfunnel.learning.deep.randomness import CODE, PRIOR, Noise
from privfunnel.learning.deep.tensors import Params, Tensor, torch

#: Log deviations of a Gaussian or Laplace code lie in ± this.
_WIDEST = 6.0


class Draws(NamedTuple):
    """Codes of some rows: R of each, with weights.

    Attributes:
        y: Codes, shape (B, n·R, size), those of a row beside each other.
        weight: Their probabilities, shape (B, n, R): 1 where a code was drawn, q(y|x) where all were listed.
        rate: ``D(q(y|x)‖r)`` of each row in nats, shape (B, n).
    """

    y: Tensor
    weight: Tensor
    rate: Tensor

    def repeat(self, rows: Tensor) -> Tensor:
        """Rows (B, n, width) beside their codes, shape (B, n·R, width)."""
        return rows if self.weight.shape[2] == 1 else rows.repeat_interleave(self.weight.shape[2], dim=1)

    def expected(self, values: Tensor) -> Tensor:
        """Mean over a row's codes of values (B, n·R), shape (B, n)."""
        return (values.reshape(self.weight.shape) * self.weight).sum(2)


@dataclass(frozen=True, kw_only=True)
class Code(ABC):
    """A family of random codes.

    Attributes:
        size: Numbers in a code, or symbols it is one of.
    """

    kind: ClassVar[str]
    size: int = 8

    def __post_init__(self) -> None:
        if not is_whole(self.size) or self.size < 1:
            raise InvalidInputError(f"size={self.size!r} is not a size of a code: give a whole number ≥ 1")

    @property
    @abstractmethod
    def outputs(self) -> int:
        """What the encoder's network has to give."""

    def networks(self) -> dict[str, Widths]:
        """Networks that the code needs besides the encoder's."""
        return {}

    def complete(self, params: Params, output: Tensor) -> Tensor:
        """All parameters of q(y|x), from what the encoder's network gave and what does not depend on x."""
        return output

    @abstractmethod
    def draw(self, params: Params, output: Tensor, noise: Noise) -> Draws:
        """Codes for what the encoder's network gave, (B, n, outputs)."""

    @abstractmethod
    def prior(self, params: Params, rows: int, noise: Noise) -> Tensor:
        """Codes drawn from r(y), shape (B, rows, size)."""

    @abstractmethod
    def log_density(self, output: Tensor, y: Tensor) -> Tensor:
        """``log q(y|x)`` of codes (…, size) for outputs (…, outputs): of a density, or of a probability."""

    def to_dict(self) -> Document:
        """JSON-ready."""
        return {"kind": self.kind, **asdict(self)}


def bounded(log_scale: Tensor) -> Tensor:
    """Log deviations within ± 6, with a gradient everywhere."""
    return _WIDEST * torch.tanh(log_scale / _WIDEST)


@dataclass(frozen=True, kw_only=True)
class GaussianCode(Code):
    """``Y = m(x) + σ(x)·ε``, ε standard normal; r is the standard normal density, as in variational auto-encoders.

    Attributes:
        size: Numbers in a code.
        additive: The noise is the same for every x.
    """

    kind: ClassVar[str] = "gaussian"
    additive: bool = False

    @property
    def outputs(self) -> int:
        """Means, and log deviations where they depend on x."""
        return self.size if self.additive else 2 * self.size

    def networks(self) -> dict[str, Widths]:
        """The log deviations, a network without inputs, where they do not depend on x."""
        return {"noise": (0, self.size)} if self.additive else {}

    def complete(self, params: Params, output: Tensor) -> Tensor:
        """Means and log deviations, also where the noise is additive."""
        if not self.additive:
            return output
        return torch.cat([output, params["noise.0.bias"].expand_as(output)], -1)

    def draw(self, params: Params, output: Tensor, noise: Noise) -> Draws:
        """One draw a row; the rate is ½Σ(σ² + m² − 1) − Σ log σ."""
        mean, spread = self.complete(params, output).split(self.size, dim=-1)
        spread = bounded(spread)
        y = mean + torch.exp(spread) * normal(noise.uniform(CODE, tuple(mean.shape[1:])))
        rate = (0.5 * (torch.exp(2.0 * spread) + mean * mean - 1.0) - spread).sum(-1)
        return Draws(y, torch.ones_like(rate)[..., None], rate)

    def prior(self, params: Params, rows: int, noise: Noise) -> Tensor:
        """Standard normal codes."""
        return normal(noise.uniform(PRIOR, (rows, self.size)))

    def log_density(self, output: Tensor, y: Tensor) -> Tensor:
        """Normal log density; the noise must be part of the output (:meth:`complete`)."""
        mean, spread = output.split(self.size, dim=-1)
        spread = bounded(spread)
        z = (y - mean) * torch.exp(-spread)
        return -(0.5 * z * z + spread + 0.5 * math.log(2.0 * math.pi)).sum(-1)


@dataclass(frozen=True, kw_only=True)
class LaplaceCode(Code):
    """``Y = m(x) + b(x)·ε``, ε with density ½exp(−|ε|), which is also r."""

    kind: ClassVar[str] = "laplace"

    @property
    def outputs(self) -> int:
        """Medians and log scales."""
        return 2 * self.size

    def draw(self, params: Params, output: Tensor, noise: Noise) -> Draws:
        """One draw a row; the rate is Σ(|m| + b exp(−|m|/b) − 1 − log b)."""
        centre, spread = output.split(self.size, dim=-1)
        spread = bounded(spread)
        scale = torch.exp(spread)
        y = centre + scale * _laplace(noise.uniform(CODE, tuple(centre.shape[1:])))
        far = centre.abs()
        rate = (far + scale * torch.exp(-far / scale) - 1.0 - spread).sum(-1)
        return Draws(y, torch.ones_like(rate)[..., None], rate)

    def prior(self, params: Params, rows: int, noise: Noise) -> Tensor:
        """Standard Laplace codes."""
        return _laplace(noise.uniform(PRIOR, (rows, self.size)))

    def log_density(self, output: Tensor, y: Tensor) -> Tensor:
        """Laplace log density."""
        centre, spread = output.split(self.size, dim=-1)
        spread = bounded(spread)
        return -((y - centre).abs() * torch.exp(-spread) + spread + math.log(2.0)).sum(-1)


def _laplace(uniform: Tensor) -> Tensor:
    centred = uniform - 0.5
    return -torch.sign(centred) * torch.log1p(-2.0 * centred.abs())


@dataclass(frozen=True, kw_only=True)
class DiscreteCode(Code):
    """One of ``size`` symbols, as a row of 0s and a 1; r(y) is learnt.

    Attributes:
        size: How many symbols there are.
        listed: Take expectations over all symbols instead of drawing one: exact, and ``size`` times the work.
        temperature: Of the Gumbel softmax that lends its gradient where one is drawn.
    """

    kind: ClassVar[str] = "discrete"
    listed: bool = False
    temperature: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.temperature) or not 0.0 < self.temperature < math.inf:
            raise InvalidInputError(f"temperature={self.temperature!r} is not positive: give a number > 0")

    @property
    def outputs(self) -> int:
        """Logits."""
        return self.size

    def networks(self) -> dict[str, Widths]:
        """The logits of r(y), a network without inputs."""
        return {"prior": (0, self.size)}

    def draw(self, params: Params, output: Tensor, noise: Noise) -> Draws:
        """One draw a row, or all symbols with their probabilities; the rate is Σ q log(q/r)."""
        logs = torch.log_softmax(output, -1)
        known = torch.log_softmax(params["prior.0.bias"], -1)
        rate = (logs.exp() * (logs - known)).sum(-1)
        if not self.listed:
            y = straight_through(output, noise.uniform(CODE, tuple(output.shape[1:])), self.temperature)
            return Draws(y, torch.ones_like(rate)[..., None], rate)
        every = torch.eye(self.size, dtype=output.dtype, device=output.device)
        y = every.expand(*output.shape[:2], self.size, self.size).reshape(output.shape[0], -1, self.size)
        return Draws(y, logs.exp(), rate)

    def prior(self, params: Params, rows: int, noise: Noise) -> Tensor:
        """Symbols drawn from r(y)."""
        logits = params["prior.0.bias"].expand(-1, rows, -1)
        return straight_through(logits, noise.uniform(PRIOR, (rows, self.size)), self.temperature)

    def log_density(self, output: Tensor, y: Tensor) -> Tensor:
        """Log probability of a symbol."""
        return (torch.log_softmax(output, -1) * y).sum(-1)


@dataclass(frozen=True, kw_only=True)
class RecordCode(Code):
    """A record with the columns of X: numbers with Gaussian noise, categories drawn anew, independently given x.

    Attributes:
        size: Columns of the layout.
        layout: The columns.
    """

    kind: ClassVar[str] = "record"
    layout: Layout

    @property
    def outputs(self) -> int:
        """What predicts a record."""
        return self.layout.outputs

    def draw(self, params: Params, output: Tensor, noise: Noise) -> Draws:
        """One draw a row. There is no r(y): the rate is 0, and no bound of anything."""
        y = self.layout.draw(output, noise.uniform(CODE, (output.shape[1], self.layout.width)))
        rate = torch.zeros_like(output[..., 0])
        return Draws(y, torch.ones_like(rate)[..., None], rate)

    def prior(self, params: Params, rows: int, noise: Noise) -> Tensor:
        """Refused: there is no r(y)."""
        raise InvalidInputError(
            "a record has no prior to draw from: choose a Gaussian, Laplace or discrete code"
        )

    def log_density(self, output: Tensor, y: Tensor) -> Tensor:
        """Log density of a record."""
        return self.layout.log_likelihood(y, output)

    def to_dict(self) -> Document:
        """JSON-ready."""
        layout = {"numbers": self.layout.numbers, "groups": list(self.layout.groups)}
        return {"kind": self.kind, "size": self.size, "layout": layout}


CODES: dict[str, type[Code]] = {
    code.kind: code for code in (GaussianCode, LaplaceCode, DiscreteCode, RecordCode)
}


def code_from(data: Document) -> Code:
    """The code that :meth:`Code.to_dict` described."""
    given = dict(data)
    made = CODES[given.pop("kind")]
    if "layout" in given:
        layout = given["layout"]
        given["layout"] = Layout(int(layout["numbers"]), tuple(layout["groups"]))
    return made(**given)

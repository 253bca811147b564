"""What every method consists of: an encoder with a code, some more networks, and who minimises which loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import ClassVar, NamedTuple

from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import is_number, is_whole
from privfunnel.infra.storage import Document
from privfunnel.learning.deep.codes import Code, Draws, GaussianCode
from privfunnel.learning.deep.layers import Widths, apply
from privfunnel.learning.deep.layout import Layout
from privfunnel.learning.deep.randomness import Noise
from privfunnel.learning.deep.tensors import Params, Tensor, torch


class Batch(NamedTuple):
    """Rows for every member.

    Attributes:
        x: Public columns, shape (B, n, width).
        s: Private columns, shape (B, n, width).
        u: What is to be useful, shape (B, n, width): the task's columns, or x again.
        weight: Shares of the rows, shape (B, n), each member's sum to 1; None for equal shares.
        strength: The method's multiplier or budget, one a member, shape (B,).
        mean_s: Mean of the private columns over the training rows, shape (width,).
    """

    x: Tensor
    s: Tensor
    u: Tensor
    weight: Tensor | None
    strength: Tensor
    mean_s: Tensor

    def mean(self, values: Tensor) -> Tensor:
        """Mean over the rows of values (B, n), shape (B,)."""
        return values.mean(1) if self.weight is None else (values * self.weight).sum(1)


#: The weight of the rate where none is given: a game needs a price on it, or the noise of a code vanishes and what is
#: hidden is hidden from the predictor alone; an upper bound of the leakage has one.
GAME_RATE, BOUND_RATE = 0.5, 0.001


class Player(NamedTuple):
    """Networks that minimise a loss of their own, and how many steps they take when it is their turn."""

    name: str
    networks: tuple[str, ...]
    steps: int = 1


@dataclass(frozen=True)
class Variables:
    """The columns of X and S, and of the task U where what is to be useful is not X itself."""

    x: Layout
    s: Layout
    u: Layout | None = None

    @property
    def useful(self) -> Layout:
        """The columns that are to be told: U, or X."""
        return self.x if self.u is None else self.u


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """An objective over networks that are trained for many members at once.

    Attributes:
        variables: The columns.
        code: What is released.
        hidden: Widths of the inner layers of every network; none make linear maps.
        fit_steps: Steps of the other players for each step of the release.
    """

    name: ClassVar[str]
    #: What a member's strength is, and what is used where none is given.
    strength_words: ClassVar[str]
    default_strength: ClassVar[float] = 1.0
    #: What is used instead, in turn, where none is given and a release has collapsed: ever more is told.
    looser_strengths: ClassVar[tuple[float, ...]] = ()

    variables: Variables
    code: Code = field(default_factory=GaussianCode)
    hidden: tuple[int, ...] = (64, 64)
    fit_steps: int = 1

    def __post_init__(self) -> None:
        if not all(is_whole(width) and width > 0 for width in self.hidden):
            raise InvalidInputError(
                f"hidden={self.hidden!r} are no widths: give whole numbers ≥ 1, e.g. (64, 64)"
            )
        if not is_whole(self.fit_steps) or self.fit_steps < 1:
            raise InvalidInputError(f"fit_steps={self.fit_steps!r} is not usable: give a whole number ≥ 1")
        for name in ("complexity", "penalty", "code_adversary", "output_adversary"):
            value = getattr(self, name, None)
            if value is None:
                continue
            if not is_number(value) or not 0.0 <= value < float("inf"):
                raise InvalidInputError(f"{name}={value!r} is not a weight: give a number ≥ 0")

    @abstractmethod
    def networks(self) -> dict[str, Widths]:
        """Every network by name with the widths of its layers."""

    @abstractmethod
    def players(self) -> tuple[Player, ...]:
        """Who takes turns; the last one, ``release``, has the encoder."""

    @property
    def game(self) -> bool:
        """Whether players have losses that are not one another's."""
        return len(self.players()) > 1

    @abstractmethod
    def loss(self, player: str, params: Params, batch: Batch, noise: Noise) -> Tensor:
        """What a player minimises, in nats, one number a member, shape (B,)."""

    def encode(self, params: Params, x: Tensor) -> Tensor:
        """Parameters of q(y|x), shape (B, n, outputs)."""
        return apply(params, "encoder", x)

    def draw(self, params: Params, batch: Batch, noise: Noise) -> Draws:
        """Codes of a batch."""
        return self.code.draw(params, self.encode(params, batch.x), noise)

    def to_dict(self) -> Document:
        """JSON-ready."""
        layouts = {
            key: None if each is None else {"numbers": each.numbers, "groups": list(each.groups)}
            for key, each in vars(self.variables).items()
        }
        rest = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in {"variables", "code", "hidden"}
        }
        return {
            "name": self.name, "variables": layouts, "code": self.code.to_dict(), "hidden": list(self.hidden), **rest,
        }  # fmt: skip

    # --- parts that several methods share ---------------------------------------------------------------------------

    def _encoder(self) -> dict[str, Widths]:
        return {"encoder": (self.variables.x.width, *self.hidden, self.code.outputs), **self.code.networks()}

    def _predictor(self, target: Layout, *, given_s: bool = False) -> Widths:
        inputs = self.code.size + (self.variables.s.width if given_s else 0)
        return (inputs, *self.hidden, target.outputs)

    def _release(self, *networks: str) -> Player:
        return Player("release", ("encoder", *self.code.networks(), *networks))

    def _error(self, params: Params, network: str, draws: Draws, layout: Layout, rows: Tensor) -> Tensor:
        """Cross-entropy ``−E log q(rows|y)`` of each row, shape (B, n), in nats."""
        output = apply(params, network, draws.y)
        return -draws.expected(layout.log_likelihood(draws.repeat(rows), output))

    def _error_given_s(
        self, params: Params, network: str, draws: Draws, batch: Batch, target: tuple[Layout, Tensor]
    ) -> Tensor:
        """Cross-entropy ``−E log q(rows|s, y)`` of each row, shape (B, n), in nats."""
        layout, rows = target
        output = apply(params, network, torch.cat([draws.y, draws.repeat(batch.s)], -1))
        return -draws.expected(layout.log_likelihood(draws.repeat(rows), output))

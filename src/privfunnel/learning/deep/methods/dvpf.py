"""The deep variational privacy funnel, with either of its bounds of the leakage.

Razeghi, Rahimi, Marcel, "Deep variational privacy funnel: general modeling with applications in face recognition"
(2024). Of the funnel's Lagrangian ``−I(X;Y) + α I(S;Y)`` the disclosure is bounded from below by a decoder, and the
leakage by one of

    upper:  E D(q(y|x)‖r) − E log q(x|s, y) − H(X|S) ≥ I(S;Y)      (X reconstructed from Y, and from Y and S)
    lower:  H(S) + E log q(s|y) ≤ I(S;Y)                            (X and S reconstructed from Y)

The upper one is minimised by all networks together; the lower one is a game against a predictor of S, and shows less
than there is whenever that predictor is too weak.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privfunnel.errors import InvalidInputError
from privfunnel.learning.deep.layers import Widths
from privfunnel.learning.deep.methods.base import BOUND_RATE, GAME_RATE, Batch, Method, Player
from privfunnel.learning.deep.randomness import Noise
from privfunnel.learning.deep.tensors import Params, Tensor

BOUNDS = ("upper", "lower")


@dataclass(frozen=True, kw_only=True)
class DeepVariationalFunnel(Method):
    """DVPF; the strength is α, larger for less leakage.

    Attributes:
        bound: ``"upper"`` or ``"lower"``.
        complexity: The weight of the rate; 0.001 by default with the upper bound, which prices it by α already, and 0.5
            with the lower one. With a small one there the noise of a code vanishes, and what is hidden is hidden from
            the predictor alone.
    """

    name: ClassVar[str] = "dvpf"
    strength_words: ClassVar[str] = "α, the weight of the leakage"
    default_strength: ClassVar[float] = 4.0
    looser_strengths: ClassVar[tuple[float, ...]] = (1.0, 0.3, 0.1)

    bound: str = "upper"
    complexity: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bound not in BOUNDS:
            raise InvalidInputError(f"bound={self.bound!r} is not known: use one of {', '.join(BOUNDS)}")

    @property
    def rate_weight(self) -> float:
        """The weight of the rate."""
        default = GAME_RATE if self.bound == "lower" else BOUND_RATE
        return default if self.complexity is None else self.complexity

    def networks(self) -> dict[str, Widths]:
        """Encoder, decoder, and what bounds the leakage."""
        made = {**self._encoder(), "decoder": self._predictor(self.variables.useful)}
        if self.bound == "upper":
            return {**made, "conditional": self._predictor(self.variables.x, given_s=True)}
        return {**made, "predictor": self._predictor(self.variables.s)}

    def players(self) -> tuple[Player, ...]:
        """All together, or the predictor first."""
        if self.bound == "upper":
            return (self._release("decoder", "conditional"),)
        return (Player("critic", ("predictor",), self.fit_steps), self._release("decoder"))

    def loss(self, player: str, params: Params, batch: Batch, noise: Noise) -> Tensor:
        """``−E log q(x|y) + α leakage + ε rate``; the predictor's ``−E log q(s|y)``."""
        draws = self.draw(params, batch, noise)
        if player == "critic":
            return batch.mean(self._error(params, "predictor", draws, self.variables.s, batch.s))
        total = self._error(params, "decoder", draws, self.variables.useful, batch.u)
        if self.bound == "upper":
            given = self._error_given_s(params, "conditional", draws, batch, (self.variables.x, batch.x))
            leakage = draws.rate + given
        else:
            leakage = -self._error(params, "predictor", draws, self.variables.s, batch.s)
        return batch.mean(total + self.rate_weight * draws.rate + batch.strength[:, None] * leakage)

"""Adversarially learned representations: a task kept, and a budget for what the release tells about S.

Bertran, Martinez, Papadaki, Qiu, Rodrigues, Reeves, Sapiro, "Adversarially learned representations for information
obfuscation and inference" (2019). The least I(U;X|Y) with I(S;Y) ≤ k, as

    min over the release of  E D(p(u|x)‖q(u|y)) + λ max(0, E D(q(s|y)‖p(s)) − k)²,

where q(u|y) is trained along and q(s|y) is a predictor that another player fits to S. The first term is the
cross-entropy −E log q(u|y) up to a constant, which is how it is computed here. Without a task U is X. The square, and
λ = 50, are those of the authors' code: the slope vanishes at the budget, which is therefore exceeded by half of what a
nat of leakage is worth, divided by λ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privfunnel.learning.deep.layers import Widths, apply
from privfunnel.learning.deep.methods.base import GAME_RATE, Batch, Method, Player
from privfunnel.learning.deep.randomness import Noise
from privfunnel.learning.deep.tensors import Params, Tensor, torch


@dataclass(frozen=True, kw_only=True)
class AdversarialRepresentation(Method):
    """ALR; the strength is k, the leakage in nats that is allowed, smaller for less leakage.

    Attributes:
        penalty: λ, the price of the square of the leakage beyond the budget.
        complexity: The weight of the rate. With a small one the noise of a code vanishes, and what is hidden is hidden
            from the predictor alone.
    """

    name: ClassVar[str] = "alr"
    strength_words: ClassVar[str] = "k, the leakage in nats that is allowed"
    default_strength: ClassVar[float] = 0.01

    penalty: float = 50.0
    complexity: float = GAME_RATE

    def networks(self) -> dict[str, Widths]:
        """Encoder, utility decoder and predictor."""
        return {
            **self._encoder(),
            "decoder": self._predictor(self.variables.useful),
            "predictor": self._predictor(self.variables.s),
        }

    def players(self) -> tuple[Player, ...]:
        """The predictor first."""
        return (Player("critic", ("predictor",), self.fit_steps), self._release("decoder"))

    def loss(self, player: str, params: Params, batch: Batch, noise: Noise) -> Tensor:
        """``−E log q(u|y) + λ max(0, E D(q(s|y)‖p(s)) − k)² + ε rate``; the predictor's ``−E log q(s|y)``."""
        draws = self.draw(params, batch, noise)
        if player == "critic":
            return batch.mean(self._error(params, "predictor", draws, self.variables.s, batch.s))
        kept = self._error(params, "decoder", draws, self.variables.useful, batch.u)
        told = self.variables.s.divergence(apply(params, "predictor", draws.y), batch.mean_s)
        above = torch.relu(batch.mean(draws.expected(told)) - batch.strength)
        return batch.mean(kept + self.complexity * draws.rate) + self.penalty * above**2

"""The difference-of-convex method for samples: fit a decoder, then step the encoder against what it says.

Huang, El Gamal, "An efficient difference-of-convex solver for privacy funnel" (2024), the part for unknown
distributions. The Lagrangian ``β I(S;Y) − I(X;Y)`` is a difference of two functions that are convex in q(y|x). A step
replaces the second by its tangent at the present encoder q₀, which is linear in q(y|x):

    I(X;Y) ≥ E_q log(q₀(x|y)/p(x)),

so that the present posterior q₀(x|y) has to be known: that is the decoder, fitted to codes of the present encoder, and
held while the encoder minimises ``β I(S;Y) − E log q₀(x|y)``. The first term is what a predictor of S, fitted in the
same way, reaches. Release needs x alone. The reconstruction here takes gradient steps where the paper has closed forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privfunnel.learning.deep.layers import Widths
from privfunnel.learning.deep.methods.base import GAME_RATE, Batch, Method, Player
from privfunnel.learning.deep.randomness import Noise
from privfunnel.learning.deep.tensors import Params, Tensor


@dataclass(frozen=True, kw_only=True)
class DifferenceOfConvexFunnel(Method):
    """DCA for samples; the strength is β, larger for less leakage.

    Attributes:
        fit_steps: Steps of decoder and predictor for each step of the encoder.
        complexity: The weight of the rate. With a small one the noise of a code vanishes, and what is hidden is hidden
            from the predictor alone.
    """

    name: ClassVar[str] = "dca"
    strength_words: ClassVar[str] = "β, the weight of the leakage"
    default_strength: ClassVar[float] = 4.0

    fit_steps: int = 2
    complexity: float = GAME_RATE

    def networks(self) -> dict[str, Widths]:
        """Encoder, decoder and predictor."""
        return {
            **self._encoder(),
            "decoder": self._predictor(self.variables.useful),
            "predictor": self._predictor(self.variables.s),
        }

    def players(self) -> tuple[Player, ...]:
        """Decoder and predictor, then the encoder alone."""
        return (Player("fit", ("decoder", "predictor"), self.fit_steps), self._release())

    def loss(self, player: str, params: Params, batch: Batch, noise: Noise) -> Tensor:
        """``−E log q(x|y) − E log q(s|y)`` of the fit; ``−E log q(x|y) + β E log q(s|y) + ε rate`` of the encoder."""
        draws = self.draw(params, batch, noise)
        kept = self._error(params, "decoder", draws, self.variables.useful, batch.u)
        hidden = self._error(params, "predictor", draws, self.variables.s, batch.s)
        if player == "fit":
            return batch.mean(kept + hidden)
        return batch.mean(kept - batch.strength[:, None] * hidden + self.complexity * draws.rate)

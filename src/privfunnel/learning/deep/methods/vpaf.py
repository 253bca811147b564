"""The conditional privacy funnel, trained variationally, and its form for a task.

Rodríguez-Gálvez, Thobaben, Skoglund, "A variational approach to privacy and fairness" (2021). Least leakage I(S;Y) for
a given I(X;Y|S) has the Lagrangian ``I(X;Y) − γ I(X;Y|S)``, up to a shift of γ, since I(S;Y) = I(X;Y) − I(X;Y|S) along
S → X → Y. With r(y) and q(x|s, y) in place of what cannot be computed it is at most, up to a constant,

    E D(q(y|x)‖r(y)) + γ E[−log q(x|s, y)],

minimised over encoder and decoder together: nobody is an adversary. With a task U in place of X in the second term
it is the conditional fairness bottleneck, ``I(X;Y) − γ I(U;Y|S)``. The decoder is told S: what S says already earns
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privfunnel.learning.deep.layers import Widths
from privfunnel.learning.deep.methods.base import Batch, Method, Player
from privfunnel.learning.deep.randomness import Noise
from privfunnel.learning.deep.tensors import Params, Tensor


@dataclass(frozen=True, kw_only=True)
class ConditionalFunnel(Method):
    """VPAF: rate and reconstruction given S; the strength is γ, larger for more disclosure."""

    name: ClassVar[str] = "vpaf"
    strength_words: ClassVar[str] = "γ, the weight of what is told"
    default_strength: ClassVar[float] = 1.3
    looser_strengths: ClassVar[tuple[float, ...]] = (2.0, 4.0, 8.0)

    def networks(self) -> dict[str, Widths]:
        """Encoder and a decoder that is given s."""
        return {**self._encoder(), "decoder": self._predictor(self.variables.useful, given_s=True)}

    def players(self) -> tuple[Player, ...]:
        """All together."""
        return (self._release("decoder"),)

    def loss(self, player: str, params: Params, batch: Batch, noise: Noise) -> Tensor:
        """``E D(q(y|x)‖r) − γ E log q(u|s, y)``."""
        draws = self.draw(params, batch, noise)
        error = self._error_given_s(params, "decoder", draws, batch, (self.variables.useful, batch.u))
        return batch.mean(draws.rate) + batch.strength * batch.mean(error)

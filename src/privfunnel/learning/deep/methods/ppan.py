"""Privacy-preserving adversarial networks: least leakage of a record that stays close to the true one.

Tripathy, Wang, Ishwar, "Privacy-preserving adversarial networks" (2019), in the case that the release sees X alone. Y
has the columns of X, and

    min over the release, max over the predictor of  E log q(s|y) + λ max(0, E d(x, y) − δ):

an adversary's log-loss under a budget of distortion, kept by a penalty that is exact once λ exceeds the slope of the
optimal curve at δ; its corner is rounded off over 0.01, and the larger λ is, the slower the rest converges. Here d is
the mean over the columns of the squared difference of numbers, in standard deviations, and of whether categories
differ. A single categorical column is released through a full channel, with expectations
over all of its values, as in the paper's discrete experiments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privfunnel.errors import InvalidInputError
from privfunnel.learning.deep.codes import Code, DiscreteCode, RecordCode
from privfunnel.learning.deep.layers import Widths
from privfunnel.learning.deep.layout import Layout
from privfunnel.learning.deep.methods.base import Batch, Method, Player
from privfunnel.learning.deep.randomness import Noise
from privfunnel.learning.deep.tensors import Params, Tensor, torch


def over(excess: Tensor, corner: float) -> Tensor:
    """``max(0, excess)`` with its corner rounded off: a parabola from 0 to ``corner``, then a line.

    At the sharp corner a penalty's gradient would jump from step to step, and drown what is to be minimised along it.
    """
    positive = torch.relu(excess)
    return torch.where(positive < corner, positive * positive / (2.0 * corner), positive - 0.5 * corner)


def record_code(layout: Layout) -> Code:
    """The code whose symbols are records with these columns."""
    if layout.categorical and len(layout.groups) == 1:
        return DiscreteCode(size=layout.width, listed=True)
    return RecordCode(size=layout.width, layout=layout)


@dataclass(frozen=True, kw_only=True)
class AdversarialNetworks(Method):
    """PPAN; the strength is δ, the budget of mean distortion, larger for less leakage.

    Attributes:
        penalty: λ, the price of distortion beyond the budget, in nats.
        fit_steps: Steps of the predictor for each step of the release.
    """

    name: ClassVar[str] = "ppan"
    strength_words: ClassVar[str] = "δ, the distortion that is allowed"
    default_strength: ClassVar[float] = 0.3

    penalty: float = 3.0
    fit_steps: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.code.size != self.variables.x.width or self.code.kind not in ("record", "discrete"):
            raise InvalidInputError(
                f"a {self.code.kind} code of size {self.code.size} is no record of X: PPAN releases records, "
                "leave its code at 'record'"
            )

    def networks(self) -> dict[str, Widths]:
        """Encoder and predictor."""
        return {**self._encoder(), "predictor": self._predictor(self.variables.s)}

    def players(self) -> tuple[Player, ...]:
        """The predictor first."""
        return (Player("critic", ("predictor",), self.fit_steps), self._release())

    def loss(self, player: str, params: Params, batch: Batch, noise: Noise) -> Tensor:
        """``E log q(s|y) + λ max(0, E d(x, y) − δ)``; the predictor's ``−E log q(s|y)``."""
        draws = self.draw(params, batch, noise)
        hidden = batch.mean(self._error(params, "predictor", draws, self.variables.s, batch.s))
        if player == "critic":
            return hidden
        far = batch.mean(draws.expected(self.variables.x.distance(draws.repeat(batch.x), draws.y)))
        # Distortion beyond the budget up to which the penalty's slope grows to λ.
        return self.penalty * over(far - batch.strength, 0.01) - hidden

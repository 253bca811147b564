"""The complexity-leakage-utility bottleneck, trained variationally, in two forms.

Razeghi, Calmon, Gündüz, Voloshynovskiy, "Bottlenecks CLUB: unifying information-theoretic trade-offs among complexity,
leakage, and utility" (2023). Of ``−I(U;Y) + β I(X;Y) + α I(S;Y)``, complexity I(X;Y) is bounded by the rate and
utility by a decoder q(u|y). The leakage is bounded

- in form P1 from above, by ``I(S;Y) = I(X;Y) − I(X;Y|S) ≤ E D(q(y|x)‖r) − E log q(x|s, y) − H(X|S)``, with a decoder
  that is given s and minimises along;
- in form P3 from below, by a predictor: ``I(S;Y) ≥ H(S) + E log q(s|y)``, as large as its own player can make it.

Two discriminators belong to both forms; each is trained on the logistic loss, and the release pays the log ratio that
it estimates:

- on the code, D(q(y)‖r(y)) of the aggregate q(y), in proportion to the weight of the rate: α + β in P1, β in P3;
- on the output, rows decoded from codes of r(y) against rows of u. It concerns the decoder, and r(y) where that is
  learnt; the encoder has no part in it.

The paper's weights of P3 are 1 for the rate, γ for utility and λ for leakage: β = 1/γ and α = λ/γ. The authors' code
has one tenth as the weight of both discriminators, which is the default here, squared errors for log-likelihoods, and
in P3 a predictor that is trained to be wrong together with the encoder; here it is an adversary, as its bound requires.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privfunnel.errors import InvalidInputError
from privfunnel.learning.deep.codes import Draws
from privfunnel.learning.deep.layers import Widths, apply
from privfunnel.learning.deep.methods.base import BOUND_RATE, GAME_RATE, Batch, Method, Player
from privfunnel.learning.deep.randomness import OUTPUT, Noise
from privfunnel.learning.deep.tensors import Params, Tensor, torch

FORMS = ("P1", "P3")


@dataclass(frozen=True, kw_only=True)
class ComplexityLeakageUtility(Method):
    """CLUB; the strength is α, larger for less leakage.

    Attributes:
        form: ``"P1"``, leakage from above by reconstruction given S, or ``"P3"``, by a predictor of S.
        complexity: β, the weight of the rate; 0.001 by default in P1, which prices it by α already, and 0.5 in P3. With
            a small one in P3 the noise of a code vanishes, and what is hidden is hidden from the predictor alone.
        code_adversary: Weight of the discriminator on codes, as a share of the rate's; 0 for none.
        output_adversary: Weight of the discriminator on rows decoded from r(y); 0 for none.
    """

    name: ClassVar[str] = "club"
    strength_words: ClassVar[str] = "α, the weight of the leakage"
    default_strength: ClassVar[float] = 4.0
    looser_strengths: ClassVar[tuple[float, ...]] = (1.0, 0.3, 0.1)

    form: str = "P1"
    complexity: float | None = None
    code_adversary: float = 0.1
    output_adversary: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form not in FORMS:
            raise InvalidInputError(f"form={self.form!r} is not known: use one of {', '.join(FORMS)}")

    @property
    def rate_weight(self) -> float:
        """The weight of the rate."""
        default = GAME_RATE if self.form == "P3" else BOUND_RATE
        return default if self.complexity is None else self.complexity

    def networks(self) -> dict[str, Widths]:
        """Encoder, utility decoder, what bounds the leakage, and the discriminators that have a weight."""
        made = {**self._encoder(), "decoder": self._predictor(self.variables.useful)}
        if self.form == "P1":
            made["conditional"] = self._predictor(self.variables.x, given_s=True)
        else:
            made["predictor"] = self._predictor(self.variables.s)
        if self.code_adversary:
            made["code_judge"] = (self.code.size, *self.hidden, 1)
        if self.output_adversary:
            made["output_judge"] = (self.variables.useful.width, *self.hidden, 1)
        return made

    def players(self) -> tuple[Player, ...]:
        """Adversaries first."""
        critics = [name for name in ("predictor", "code_judge", "output_judge") if name in self.networks()]
        release = self._release("decoder", *(["conditional"] if self.form == "P1" else []))
        return (*((Player("critic", tuple(critics), self.fit_steps),) if critics else ()), release)

    def loss(self, player: str, params: Params, batch: Batch, noise: Noise) -> Tensor:
        """``−E log q(u|y) + β rate + α leakage`` and what the discriminators say; the critics' own losses."""
        draws = self.draw(params, batch, noise)
        if player == "critic":
            return self._critics(params, batch, draws, noise)
        error = self._error(params, "decoder", draws, self.variables.useful, batch.u)
        strength = batch.strength[:, None]
        if self.form == "P1":
            given = self._error_given_s(params, "conditional", draws, batch, (self.variables.x, batch.x))
            # The upper bound of the leakage has the rate as well.
            price = self.rate_weight + strength
            total = error + price * draws.rate + strength * given
        else:
            price = self.rate_weight
            hidden = self._error(params, "predictor", draws, self.variables.s, batch.s)
            total = error + price * draws.rate - strength * hidden
        if self.code_adversary:
            told = draws.expected(apply(params, "code_judge", draws.y)[..., 0])
            total = total - self.code_adversary * price * told
        loss = batch.mean(total)
        if self.output_adversary:
            made = apply(params, "output_judge", self._generated(params, draws, noise))[..., 0]
            loss = loss - self.output_adversary * made.mean(1)
        return loss

    def _critics(self, params: Params, batch: Batch, draws: Draws, noise: Noise) -> Tensor:
        total = torch.zeros_like(draws.rate)
        if self.form == "P3":
            total = total + self._error(params, "predictor", draws, self.variables.s, batch.s)
        softplus = torch.nn.functional.softplus
        if self.code_adversary:
            known = softplus(-apply(params, "code_judge", self._known(params, draws, noise))[..., 0])
            own = softplus(apply(params, "code_judge", draws.y)[..., 0])
            total = total + known.mean(1, keepdim=True) + draws.expected(own)
        if self.output_adversary:
            real = softplus(-apply(params, "output_judge", batch.u)[..., 0])
            made = softplus(apply(params, "output_judge", self._generated(params, draws, noise))[..., 0])
            total = total + real + made.mean(1, keepdim=True)
        return batch.mean(total)

    def _known(self, params: Params, draws: Draws, noise: Noise) -> Tensor:
        """As many codes drawn from r(y) as there are rows."""
        return self.code.prior(params, draws.rate.shape[1], noise)

    def _generated(self, params: Params, draws: Draws, noise: Noise) -> Tensor:
        """Rows drawn from the utility decoder, of codes drawn from r(y)."""
        layout = self.variables.useful
        output = apply(params, "decoder", self._known(params, draws, noise))
        return layout.draw(output, noise.uniform(OUTPUT, (output.shape[1], layout.width)))

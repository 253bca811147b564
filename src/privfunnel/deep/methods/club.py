"""The complexity-leakage-utility bottleneck, trained variationally, in two forms.

Razeghi, Calmon, Gündüz, Voloshynovskiy, "Bottlenecks CLUB: unifying information-theoretic trade-offs among complexity,
leakage, and utility" (2023). Of ``−I(U;Y) + β I(X;Y) + α I(S;Y)``, complexity I(X;Y) is bounded by the rate and
utility by a decoder q(u|y). The leakage is bounded

- in form P1 from above, by ``I(S;Y) = I(X;Y) − I(X;Y|S) ≤ E D(q(y|x)‖r) − E log q(x|s, y) − H(X|S)``, with a decoder
  that is given s and minimises along;
- in form P3 from below, by a predictor: ``I(S;Y) ≥ H(S) + E log q(s|y)``, as large as its own player can make it.

Two discriminators may be added, on the code (aggregate q(y) against r(y)) and on the output (decoded u against u);
each is trained on the logistic loss, and the release pays the log ratio that it estimates, D(q(y)‖r(y)) for the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privfunnel.deep.codes import Draws
from privfunnel.deep.layers import Widths, apply
from privfunnel.deep.methods.base import Batch, Method, Player
from privfunnel.deep.randomness import OUTPUT, Noise
from privfunnel.deep.tensors import Params, Tensor, torch
from privfunnel.errors import InvalidInputError

FORMS = ("P1", "P3")


@dataclass(frozen=True, kw_only=True)
class ComplexityLeakageUtility(Method):
    """CLUB; the strength is α, larger for less leakage.

    Attributes:
        form: ``"P1"``, leakage from above by reconstruction given S, or ``"P3"``, by a predictor of S.
        complexity: β, the weight of the rate.
        code_adversary: Weight of the discriminator on codes; 0 for none.
        output_adversary: Weight of the discriminator on decoded rows; 0 for none.
    """

    name: ClassVar[str] = "club"
    strength_words: ClassVar[str] = "α, the weight of the leakage"

    form: str = "P1"
    complexity: float = 0.001
    code_adversary: float = 0.01
    output_adversary: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form not in FORMS:
            raise InvalidInputError(f"form={self.form!r} is not known: use one of {', '.join(FORMS)}")

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
        total = self._error(params, "decoder", draws, self.variables.useful, batch.u)
        total = total + self.complexity * draws.rate
        if self.form == "P1":
            given = self._error_given_s(params, "conditional", draws, batch, (self.variables.x, batch.x))
            leakage = draws.rate + given
        else:
            leakage = -self._error(params, "predictor", draws, self.variables.s, batch.s)
        total = total + batch.strength[:, None] * leakage
        if self.code_adversary:
            total = total - self.code_adversary * draws.expected(apply(params, "code_judge", draws.y)[..., 0])
        if self.output_adversary:
            made = self._decoded(params, draws, noise)
            total = total - self.output_adversary * draws.expected(
                apply(params, "output_judge", made)[..., 0]
            )
        return batch.mean(total)

    def _critics(self, params: Params, batch: Batch, draws: Draws, noise: Noise) -> Tensor:
        total = torch.zeros_like(draws.rate)
        if self.form == "P3":
            total = total + self._error(params, "predictor", draws, self.variables.s, batch.s)
        softplus = torch.nn.functional.softplus
        if self.code_adversary:
            known = self.code.prior(params, draws.rate.shape[1], noise)
            real = softplus(-apply(params, "code_judge", known)[..., 0])
            total = total + real + draws.expected(softplus(apply(params, "code_judge", draws.y)[..., 0]))
        if self.output_adversary:
            real = softplus(-apply(params, "output_judge", batch.u)[..., 0])
            made = self._decoded(params, draws, noise)
            total = total + real + draws.expected(softplus(apply(params, "output_judge", made)[..., 0]))
        return batch.mean(total)

    def _decoded(self, params: Params, draws: Draws, noise: Noise) -> Tensor:
        """Rows drawn from the utility decoder."""
        layout = self.variables.useful
        output = apply(params, "decoder", draws.y)
        return layout.draw(output, noise.uniform(OUTPUT, (output.shape[1], layout.width)))

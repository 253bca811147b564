"""The six estimators: what all share is told in :class:`.CodingFunnel`, and their papers in :mod:`.methods`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privfunnel.learning.deep.estimator import CodingFunnel, DeepFunnel

__all__ = ["ALR", "CLUB", "DCA", "DVPF", "PPAN", "VPAF"]


@dataclass(eq=False, repr=False, kw_only=True)
class VPAF(CodingFunnel):
    """The conditional privacy funnel of Rodríguez-Gálvez, Thobaben, Skoglund (2021); with a task, its fair form.

    The strength is γ, the weight of what is told, 1.3 by default, or 2, 4 or 8 where a release collapses at less; at 1
    nothing is worth its rate.
    """

    _method: ClassVar[str] = "vpaf"


@dataclass(eq=False, repr=False, kw_only=True)
class CLUB(CodingFunnel):
    """The complexity-leakage-utility bottleneck of Razeghi, Calmon, Gündüz, Voloshynovskiy (2023).

    The strength is α, the weight of the leakage, 4 by default, or 1, 0.3 or 0.1 where a release collapses at more.

    Args:
        form: ``"P1"``, leakage bounded from above by reconstruction given S, or ``"P3"``, by a predictor of S.
        complexity: β, the weight of the rate; 0.001 by default in P1, 0.5 in P3, where S is hidden from the predictor
            alone if it is small.
        code_adversary: Weight of a discriminator on codes, as a share of the rate's; 0 for none.
        output_adversary: Weight of a discriminator on rows decoded from r(y); 0 for none.
        fit_steps: Steps of the adversaries for each step of the release.
    """

    _method: ClassVar[str] = "club"
    _own: ClassVar[tuple[str, ...]] = (
        "form",
        "complexity",
        "code_adversary",
        "output_adversary",
        "fit_steps",
    )

    form: str = "P1"
    complexity: float | None = None
    code_adversary: float = 0.1
    output_adversary: float = 0.1
    fit_steps: int = 1


@dataclass(eq=False, repr=False, kw_only=True)
class DVPF(CodingFunnel):
    """The deep variational privacy funnel of Razeghi, Rahimi, Marcel (2024).

    The strength is α, the weight of the leakage, 4 by default, or 1, 0.3 or 0.1 where a release collapses at more.

    Args:
        bound: ``"upper"`` or ``"lower"``, which bound of the leakage is trained on.
        complexity: The weight of the rate; 0.001 by default with the upper bound, 0.5 with the lower one, where S is
            hidden from the predictor alone if it is small.
        fit_steps: Steps of the predictor for each step of the release, for the lower bound.
    """

    _method: ClassVar[str] = "dvpf"
    _own: ClassVar[tuple[str, ...]] = ("bound", "complexity", "fit_steps")

    bound: str = "upper"
    complexity: float | None = None
    fit_steps: int = 1


@dataclass(eq=False, repr=False, kw_only=True)
class DCA(CodingFunnel):
    """The difference-of-convex method for samples of Huang, El Gamal (2024).

    The strength is β, the weight of the leakage, 4 by default.

    Args:
        complexity: The weight of the rate; with a small one S is hidden from the predictor alone.
        fit_steps: Steps of decoder and predictor for each step of the encoder.
    """

    _method: ClassVar[str] = "dca"
    _own: ClassVar[tuple[str, ...]] = ("complexity", "fit_steps")

    complexity: float = 0.5
    fit_steps: int = 2


@dataclass(eq=False, repr=False, kw_only=True)
class PPAN(DeepFunnel):
    """Privacy-preserving adversarial networks of Tripathy, Wang, Ishwar (2019): records close to the true ones.

    The strength is δ, the mean distortion that is allowed, 0.3 by default.

    Args:
        penalty: λ, the price of distortion beyond it, in nats.
        fit_steps: Steps of the predictor for each step of the release.
    """

    _method: ClassVar[str] = "ppan"
    _own: ClassVar[tuple[str, ...]] = ("penalty", "fit_steps")

    penalty: float = 3.0
    fit_steps: int = 3


@dataclass(eq=False, repr=False, kw_only=True)
class ALR(CodingFunnel):
    """Adversarially learned representations of Bertran et al. (2019): a task kept under a budget of leakage.

    The strength is k, the leakage in nats that is allowed, 0.01 by default.

    Args:
        penalty: λ, the price of the square of the leakage beyond it.
        complexity: The weight of the rate; with a small one S is hidden from the predictor alone.
        fit_steps: Steps of the predictor for each step of the release.
    """

    _method: ClassVar[str] = "alr"
    _own: ClassVar[tuple[str, ...]] = ("penalty", "complexity", "fit_steps")

    penalty: float = 50.0
    complexity: float = 0.5
    fit_steps: int = 1

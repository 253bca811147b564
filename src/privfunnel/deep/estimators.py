"""The six estimators. Objectives, papers and what a strength is are told in :mod:`privfunnel.deep.methods`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from privfunnel.deep.estimator import DeepFunnel
from privfunnel.deep.trainer import Schedule

__all__ = ["ALR", "CLUB", "DCA", "DVPF", "PPAN", "VPAF"]

# scikit-learn reads a constructor's signature, so that each has to spell out what all share.


class VPAF(DeepFunnel):
    """The conditional privacy funnel of Rodríguez-Gálvez, Thobaben, Skoglund (2021); with a task, its fair form.

    Args:
        strength: γ, the weight of what is told; 1 by default. Below 1 nothing is worth its rate.
        code: ``"gaussian"``, ``"laplace"`` or ``"discrete"``.
        size: Numbers in a code, or symbols of a discrete one.
        hidden: Widths of the inner layers.
        schedule: How long and how fast to train.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        seed: Fixes the training.
        random_state: For experiments only: makes the draws of ``transform`` reproducible.
        progress: Show how the training goes.
    """

    _method: ClassVar[str] = "vpaf"

    def __init__(
        self,
        strength: float | None = None,
        *,
        code: str = "gaussian",
        size: int = 8,
        hidden: Sequence[int] = (64, 64),
        schedule: Schedule | None = None,
        device: str = "auto",
        seed: int = 0,
        random_state: int | None = None,
        progress: bool = False,
    ) -> None:
        """Keep the parameters; everything is checked in ``fit``."""
        self.strength, self.code, self.size, self.hidden = strength, code, size, hidden
        self.schedule, self.device, self.seed = schedule, device, seed
        self.random_state, self.progress = random_state, progress


class CLUB(DeepFunnel):
    """The complexity-leakage-utility bottleneck of Razeghi, Calmon, Gündüz, Voloshynovskiy (2023).

    Args:
        strength: α, the weight of the leakage; 1 by default.
        form: ``"P1"``, leakage bounded from above by reconstruction given S, or ``"P3"``, by a predictor of S.
        complexity: β, the weight of the rate.
        code_adversary: Weight of a discriminator on codes; 0 for none.
        output_adversary: Weight of a discriminator on decoded rows; 0 for none.
        fit_steps: Steps of the adversaries for each step of the release.
        code: The code; it and the rest as in :class:`VPAF`.
        size: Numbers in a code, or symbols of a discrete one.
        hidden: Widths of the inner layers.
        schedule: How long and how fast to train.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        seed: Fixes the training.
        random_state: For experiments only.
        progress: Show how the training goes.
    """

    _method: ClassVar[str] = "club"
    _own: ClassVar[tuple[str, ...]] = (
        "form",
        "complexity",
        "code_adversary",
        "output_adversary",
        "fit_steps",
    )

    def __init__(
        self,
        strength: float | None = None,
        *,
        form: str = "P1",
        complexity: float = 0.001,
        code_adversary: float = 0.01,
        output_adversary: float = 0.01,
        fit_steps: int = 1,
        code: str = "gaussian",
        size: int = 8,
        hidden: Sequence[int] = (64, 64),
        schedule: Schedule | None = None,
        device: str = "auto",
        seed: int = 0,
        random_state: int | None = None,
        progress: bool = False,
    ) -> None:
        """Keep the parameters; everything is checked in ``fit``."""
        self.form, self.complexity, self.fit_steps = form, complexity, fit_steps
        self.code_adversary, self.output_adversary = code_adversary, output_adversary
        self.strength, self.code, self.size, self.hidden = strength, code, size, hidden
        self.schedule, self.device, self.seed = schedule, device, seed
        self.random_state, self.progress = random_state, progress


class DVPF(DeepFunnel):
    """The deep variational privacy funnel of Razeghi, Rahimi, Marcel (2024).

    Args:
        strength: α, the weight of the leakage; 1 by default.
        bound: ``"upper"`` or ``"lower"``, which bound of the leakage is trained on.
        complexity: A small weight of the rate.
        fit_steps: Steps of the predictor for each step of the release, for the lower bound.
        code: The code; it and the rest as in :class:`VPAF`.
        size: Numbers in a code, or symbols of a discrete one.
        hidden: Widths of the inner layers.
        schedule: How long and how fast to train.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        seed: Fixes the training.
        random_state: For experiments only.
        progress: Show how the training goes.
    """

    _method: ClassVar[str] = "dvpf"
    _own: ClassVar[tuple[str, ...]] = ("bound", "complexity", "fit_steps")

    def __init__(
        self,
        strength: float | None = None,
        *,
        bound: str = "upper",
        complexity: float = 0.001,
        fit_steps: int = 1,
        code: str = "gaussian",
        size: int = 8,
        hidden: Sequence[int] = (64, 64),
        schedule: Schedule | None = None,
        device: str = "auto",
        seed: int = 0,
        random_state: int | None = None,
        progress: bool = False,
    ) -> None:
        """Keep the parameters; everything is checked in ``fit``."""
        self.bound, self.complexity, self.fit_steps = bound, complexity, fit_steps
        self.strength, self.code, self.size, self.hidden = strength, code, size, hidden
        self.schedule, self.device, self.seed = schedule, device, seed
        self.random_state, self.progress = random_state, progress


class DCA(DeepFunnel):
    """The difference-of-convex method for samples of Huang, El Gamal (2024).

    Args:
        strength: β, the weight of the leakage; 1 by default.
        complexity: A small weight of the rate.
        fit_steps: Steps of decoder and predictor for each step of the encoder.
        code: The code; it and the rest as in :class:`VPAF`.
        size: Numbers in a code, or symbols of a discrete one.
        hidden: Widths of the inner layers.
        schedule: How long and how fast to train.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        seed: Fixes the training.
        random_state: For experiments only.
        progress: Show how the training goes.
    """

    _method: ClassVar[str] = "dca"
    _own: ClassVar[tuple[str, ...]] = ("complexity", "fit_steps")

    def __init__(
        self,
        strength: float | None = None,
        *,
        complexity: float = 0.001,
        fit_steps: int = 2,
        code: str = "gaussian",
        size: int = 8,
        hidden: Sequence[int] = (64, 64),
        schedule: Schedule | None = None,
        device: str = "auto",
        seed: int = 0,
        random_state: int | None = None,
        progress: bool = False,
    ) -> None:
        """Keep the parameters; everything is checked in ``fit``."""
        self.complexity, self.fit_steps = complexity, fit_steps
        self.strength, self.code, self.size, self.hidden = strength, code, size, hidden
        self.schedule, self.device, self.seed = schedule, device, seed
        self.random_state, self.progress = random_state, progress


class PPAN(DeepFunnel):
    """Privacy-preserving adversarial networks of Tripathy, Wang, Ishwar (2019): records close to the true ones.

    Args:
        strength: δ, the mean distortion that is allowed; 0.1 by default.
        penalty: λ, the price of distortion beyond it, in nats.
        fit_steps: Steps of the predictor for each step of the release.
        hidden: Widths of the inner layers.
        schedule: How long and how fast to train.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        seed: Fixes the training.
        random_state: For experiments only.
        progress: Show how the training goes.
    """

    _method: ClassVar[str] = "ppan"
    _own: ClassVar[tuple[str, ...]] = ("penalty", "fit_steps")

    def __init__(
        self,
        strength: float | None = None,
        *,
        penalty: float = 3.0,
        fit_steps: int = 3,
        hidden: Sequence[int] = (64, 64),
        schedule: Schedule | None = None,
        device: str = "auto",
        seed: int = 0,
        random_state: int | None = None,
        progress: bool = False,
    ) -> None:
        """Keep the parameters; everything is checked in ``fit``."""
        self.strength, self.penalty, self.fit_steps, self.hidden = strength, penalty, fit_steps, hidden
        self.schedule, self.device, self.seed = schedule, device, seed
        self.random_state, self.progress = random_state, progress


class ALR(DeepFunnel):
    """Adversarially learned representations of Bertran et al. (2019): a task kept under a budget of leakage.

    Args:
        strength: k, the leakage in nats that is allowed; 0.01 by default.
        penalty: λ, the price of leakage beyond it.
        complexity: A small weight of the rate.
        fit_steps: Steps of the predictor for each step of the release.
        code: The code; it and the rest as in :class:`VPAF`.
        size: Numbers in a code, or symbols of a discrete one.
        hidden: Widths of the inner layers.
        schedule: How long and how fast to train.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        seed: Fixes the training.
        random_state: For experiments only.
        progress: Show how the training goes.
    """

    _method: ClassVar[str] = "alr"
    _own: ClassVar[tuple[str, ...]] = ("penalty", "complexity", "fit_steps")

    def __init__(
        self,
        strength: float | None = None,
        *,
        penalty: float = 10.0,
        complexity: float = 0.001,
        fit_steps: int = 1,
        code: str = "gaussian",
        size: int = 8,
        hidden: Sequence[int] = (64, 64),
        schedule: Schedule | None = None,
        device: str = "auto",
        seed: int = 0,
        random_state: int | None = None,
        progress: bool = False,
    ) -> None:
        """Keep the parameters; everything is checked in ``fit``."""
        self.penalty, self.complexity, self.fit_steps = penalty, complexity, fit_steps
        self.strength, self.code, self.size, self.hidden = strength, code, size, hidden
        self.schedule, self.device, self.seed = schedule, device, seed
        self.random_state, self.progress = random_state, progress

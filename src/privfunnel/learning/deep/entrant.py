"""A deep method as a solver of tables: trained on p(s,x) itself with listed symbols, and judged like every other one.

On a table its objective is an exact expectation and its encoder a channel, so that what remains of its distance from
the optimum is the method's own: its bounds, its adversary and its optimiser.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.options import check_choice, check_seconds, check_whole
from privfunnel.algorithms.pool import Pool
from privfunnel.algorithms.sweep import Sweep
from privfunnel.certificate.answer import Status
from privfunnel.infra.watching import Listener, Progress
from privfunnel.learning.deep import data, exact
from privfunnel.learning.deep.codes import DiscreteCode
from privfunnel.learning.deep.methods import METHODS
from privfunnel.learning.deep.methods.ppan import record_code
from privfunnel.learning.deep.tensors import torch
from privfunnel.learning.deep.trainer import News, Schedule, train
from privfunnel.model.problem import Problem

#: On a table what a code tells is measured, not guessed, and its rate needs no price.
_FREE = {"complexity": 0.001}
#: The forms of the methods: method and options.
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "vpaf": ("vpaf", {}),
    "club-p1": ("club", {"form": "P1", **_FREE}),
    "club-p3": ("club", {"form": "P3", "fit_steps": 2, **_FREE}),
    "dvpf-upper": ("dvpf", {"bound": "upper", **_FREE}),
    "dvpf-lower": ("dvpf", {"bound": "lower", "fit_steps": 2, **_FREE}),
    "dca": ("dca", {**_FREE}),
    "ppan": ("ppan", {}),
    "alr": ("alr", {"fit_steps": 2, **_FREE}),
}
_LEAKAGE_ABOVE = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 20.0, 60.0)
_LEAKAGE_BELOW = (0.3, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
#: The strengths that a sweep goes through: multipliers from hardly any privacy to hardly anything told, or budgets.
STRENGTHS: dict[str, tuple[float, ...]] = {
    "vpaf": (1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 8.0),
    "club-p1": _LEAKAGE_ABOVE,
    "club-p3": _LEAKAGE_BELOW,
    "dvpf-upper": _LEAKAGE_ABOVE,
    "dvpf-lower": _LEAKAGE_BELOW,
    "dca": _LEAKAGE_BELOW,
    "ppan": (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    "alr": (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2),
}
#: Most symbols of a code: the work grows with them.
MOST_OUTPUTS = 33


@dataclass(frozen=True, kw_only=True)
class DeepSweep(Sweep):
    """A deep method, swept over its strengths on a CPU.

    Attributes:
        form: The method, one of :data:`FORMS`.
        restarts: Seeds for each strength.
        max_steps: Passes over the table.
        time_limit: Seconds after which training ends where it is; infinite for no limit.
    """

    name: ClassVar[str] = "deep"
    iterative: ClassVar[bool] = False

    form: str = "vpaf"
    restarts: int = 3
    max_steps: int = 400

    def __post_init__(self) -> None:
        """Check the options."""
        check_choice(self.name, "form", self.form, tuple(FORMS))
        check_whole(self.name, 1, restarts=self.restarts, max_steps=self.max_steps)
        check_seconds(self.name, self.time_limit)

    def _swept(self, problem: Problem, seed: int, deadline: Deadline, progress: Listener | None) -> Pool:
        pool = Pool(problem.p_sx, iterative=self.iterative)
        made = data.table(problem.p_sx)
        name, options = FORMS[self.form]
        code = (
            record_code(made.variables.x)
            if name == "ppan"
            else DiscreteCode(size=min(problem.n_x + 1, MOST_OUTPUTS), listed=True)
        )
        method = METHODS[name](variables=made.variables, code=code, hidden=(32,), **options)
        schedule = Schedule(
            epochs=self.max_steps, learning_rate=0.01, last_rate=0.05, patience=self.max_steps, warm_up=0
        )
        members = [(a, b) for a in STRENGTHS[self.form] for b in range(self.restarts)]
        seeds = [int(each) for each in np.random.SeedSequence(seed).generate_state(self.restarts)]

        def listen(news: News) -> None:
            if progress is not None:
                progress(Progress(done=news.done, total=news.total, message=f"{self.form} trains"))

        with _one_thread():
            done = train(
                method, made.rows, [a for a, _ in members], [seeds[b] for _, b in members], schedule,
                device="cpu", listen=listen, stop=deadline.passed,
            )  # fmt: skip
        every = np.eye(problem.n_x)
        channels = np.stack(
            [exact.channel(method, exact.member(done.params, i), every) for i in range(len(members))]
        )
        pool.runs += len(members)
        pool.cut = deadline.passed()
        blank = np.full(len(members), np.nan)
        pool.add(channels, [Status.FEASIBLE] * len(members), done.epochs, blank)
        return pool


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread of PyTorch, as every solver of a comparison has."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""One small trainer for all methods: many members at once, early stopping, and checkpoints that go on bit for bit.

A *member* is one training: a strength and a seed. All members of a run share the method, the rows and the schedule, and
nothing else: layers are stacked, losses are added up before one backward pass, and every random number of a member
comes from its own seed. A member stops for itself, when its held-out loss has not improved for a while; the run goes on
until all have, and keeps the best weights of each, or the last ones where players have losses of their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from privfunnel.errors import InvalidInputError, SolverError
from privfunnel.infra.checks import is_number, is_whole
from privfunnel.infra.storage import Document
from privfunnel.learning.deep import checkpoint, layers
from privfunnel.learning.deep.methods.base import Batch, Method
from privfunnel.learning.deep.randomness import ORDER, Noise, uniform
from privfunnel.learning.deep.tensors import Params, Tensor, choose_device, torch

#: Steps of different players, and those of the held-out rows, draw from different steps of a stream: this far apart.
_TURNS = 64


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long and how fast to train.

    Attributes:
        epochs: Most passes over the rows.
        batch_size: Rows a step; all of them where there are no more.
        learning_rate: Of Adam.
        last_rate: Share of it that is left in the last pass; it shrinks by a constant factor from pass to pass.
        patience: Passes without a better held-out loss after which a member stops.
        warm_up: Passes before the held-out loss counts; half of all passes where there is an adversary, who
            has to learn before it can be believed.
        held_out: Share of the rows that early stopping looks at; 0 for the training rows themselves.
        double: Double precision.
    """

    epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 1e-3
    last_rate: float = 1.0
    patience: int = 10
    warm_up: int = 5
    held_out: float = 0.2
    double: bool = False

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 1), ("patience", 1), ("warm_up", 0)):
            value = getattr(self, name)
            if not is_whole(value) or value < least:
                raise InvalidInputError(f"{name}={value!r} is not usable: give a whole number ≥ {least}")
        if not is_number(self.learning_rate) or not 0.0 < self.learning_rate < math.inf:
            raise InvalidInputError(f"learning_rate={self.learning_rate!r} is not usable: give a number > 0")
        if not is_number(self.last_rate) or not 0.0 < self.last_rate <= 1.0:
            raise InvalidInputError(f"last_rate={self.last_rate!r} is not usable: give a share in (0, 1]")
        if not is_number(self.held_out) or not 0.0 <= self.held_out < 1.0:
            raise InvalidInputError(f"held_out={self.held_out!r} is not a share: give a number in [0, 1)")

    @classmethod
    def of(cls, rows: int) -> Schedule:
        """What is used where none is given: about 2000 steps, at least 40 and at most 400 passes, ever slower."""
        epochs = min(max(2000 * 256 // max(rows, 1), 40), 400)
        return cls(epochs=epochs, learning_rate=3e-3, last_rate=0.1, patience=max(epochs // 8, 10))


class Rows(NamedTuple):
    """Rows to train on, as tensors or NumPy arrays of numbers.

    Attributes:
        x: Public columns, shape (n, width).
        s: Private columns, shape (n, width).
        u: The task's columns, shape (n, width); None where X is to be told.
        weight: Shares of the rows, shape (n,): a table's cells and their probabilities; None for equal
            rows. Weighted rows are neither split nor shuffled.
    """

    x: Any
    s: Any
    u: Any = None
    weight: Any = None


class Trained(NamedTuple):
    """What a run ended with.

    Attributes:
        params: Best weights of each member, the last ones where there is an adversary, on the CPU.
        losses: Held-out loss of each member after each pass, shape (epochs, B), in nats.
        best: Least of them, shape (B,).
        epochs: Passes of each member, shape (B,).
        seconds: Time of the run on its device, without what an earlier part of it took.
        memory: Most bytes on the GPU; 0 on a CPU.
        device: Where it ran.
    """

    params: Params
    losses: Any
    best: Any
    epochs: Any
    seconds: float
    memory: int
    device: str


class News(NamedTuple):
    """What a listener is told after each pass: passes done, most of them, members still going, mean held-out loss."""

    done: int
    total: int
    going: int
    loss: float


@dataclass
class _State:
    """All that changes during a run, and all that a checkpoint holds."""

    params: Params
    moments: dict[str, tuple[Tensor, Tensor]]
    best_params: Params
    best: Tensor
    waited: Tensor
    epochs: Tensor
    losses: list[Tensor]
    turns: dict[str, int]
    epoch: int = 0


def train(
    method: Method,
    rows: Rows,
    strengths: Sequence[float],
    seeds: Sequence[int],
    schedule: Schedule | None = None,
    *,
    device: str = "auto",
    keep: Path | None = None,
    listen: Callable[[News], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Trained:
    """Train members of a method together.

    Args:
        method: The objective.
        rows: What to train on.
        strengths: The method's multiplier or budget, one a member.
        seeds: One a member.
        schedule: How long and how fast; :meth:`Schedule.of` the rows by default.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        keep: A file for checkpoints, written after each pass: a run that finds its own there goes on from it, and ends
            where an uninterrupted one would, bit for bit on a CPU.
        listen: Told after each pass.
        stop: Asked after each pass whether to end where one is: a time limit.

    Raises:
        InvalidInputError: Arguments do not fit together, or the checkpoint is another run's.
        SolverError: A member's loss was never a number.
    """
    schedule = Schedule.of(len(rows.x)) if schedule is None else schedule
    if not isinstance(schedule, Schedule):
        raise InvalidInputError(f"schedule={schedule!r} is no schedule: give deep.Schedule(epochs=…)")
    strengths, seeds = [float(value) for value in strengths], [int(seed) for seed in seeds]
    if len(strengths) != len(seeds) or not seeds:
        raise InvalidInputError(
            f"{len(strengths)} strengths and {len(seeds)} seeds: give one of each a member"
        )
    if any(not math.isfinite(value) or value < 0.0 for value in strengths):
        raise InvalidInputError(f"strengths={strengths!r} are not usable: give finite numbers ≥ 0")
    if any(not 0 <= seed < 2**63 for seed in seeds):
        raise InvalidInputError(f"seeds={seeds!r} are not usable: give whole numbers from 0 to 2⁶³ − 1")
    place = choose_device(device)
    run = _Run(method, rows, strengths, seeds, schedule, place)
    setting = {
        "method": method.to_dict(),
        "strengths": strengths,
        "seeds": seeds,
        "schedule": asdict(schedule),
    }
    found = keep is not None and keep.exists()
    state = _State(**checkpoint.read(keep, setting, place)) if keep is not None and found else run.start()
    began = time.perf_counter()
    if place != "cpu":  # pragma: no cover  (needs a GPU)
        torch.cuda.reset_peak_memory_stats()
    with _precision():
        while state.epoch < schedule.epochs and bool(run.going(state).any()):
            run.advance(state)
            if keep is not None:
                checkpoint.write(keep, setting, vars(state))
            if listen is not None:
                going = int(run.going(state).sum())
                listen(News(state.epoch, schedule.epochs, going, float(state.losses[-1].nanmean())))
            if stop is not None and stop():
                break
    run.settle(state)
    if not bool(torch.isfinite(state.best).all()):
        failed = [i for i, fine in enumerate(torch.isfinite(state.best).tolist()) if not fine]
        raise SolverError(
            f"the loss of {len(failed)} of {len(seeds)} members was never a number "
            f"(strength {strengths[failed[0]]:g}): give a smaller learning_rate"
        )
    memory = 0 if place == "cpu" else int(torch.cuda.max_memory_allocated())
    return Trained(
        {name: value.detach().cpu() for name, value in state.best_params.items()},
        torch.stack(state.losses).cpu().numpy(),
        state.best.cpu().numpy(),
        state.epochs.cpu().numpy(),
        time.perf_counter() - began,
        memory,
        place,
    )


def split(n: int, share: float) -> tuple[Tensor, Tensor]:
    """Places of held-out rows and of training rows, the same in every run with as many rows; both all for a share of 0.

    Raises:
        InvalidInputError: There are too few rows.
    """
    if not share:
        return torch.arange(n), torch.arange(n)
    order = torch.argsort(uniform(torch.zeros(1, dtype=torch.int64), ORDER, 0, (n,))[0], stable=True)
    held = max(round(share * n), 1)
    if n - held < 1:
        raise InvalidInputError(f"{n} rows cannot be split: give more rows, or held_out=0")
    return order[:held], order[held:]


@contextmanager
def _precision() -> Iterator[None]:
    """Let a GPU multiply single precision with fewer bits while a run lasts: noise is far larger than that."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class _Run:
    """The fixed part of a run: data on the device, and how one pass goes."""

    def __init__(
        self,
        method: Method,
        rows: Rows,
        strengths: list[float],
        seeds: list[int],
        schedule: Schedule,
        place: str,
    ) -> None:
        self.method, self.schedule, self.place = method, schedule, place
        self.dtype = torch.float64 if schedule.double else torch.float32
        self.seeds = torch.tensor(seeds, dtype=torch.int64, device=place)
        self.strength = torch.tensor(strengths, dtype=self.dtype, device=place)
        self._rows = self._placed(rows)
        n = len(self._rows.x)
        share = schedule.held_out if rows.weight is None else 0.0
        self.held, self.train = (part.to(place) for part in split(n, share))
        warm_up = max(schedule.warm_up, schedule.epochs // 2 if method.game else 0)
        self._warm_up = min(warm_up, schedule.epochs - 1)
        self.mean_s = self._mean(self._rows.s, self._rows.weight)

    def _placed(self, rows: Rows) -> Rows:
        variables = self.method.variables
        wanted = {"x": variables.x, "s": variables.s, "u": variables.u}
        made: Document = {"weight": None}
        for name, layout in wanted.items():
            values = getattr(rows, name)
            if (values is None) != (layout is None):
                raise InvalidInputError(
                    f"rows.{name} and the method's columns of {name!r} do not agree: give both"
                )
            if values is None or layout is None:
                made[name] = None
                continue
            tensor = torch.as_tensor(values).to(device=self.place, dtype=self.dtype)
            if (
                tensor.ndim != 2
                or tensor.shape[1] != layout.width
                or len(tensor) != len(rows.x)
                or not len(tensor)
            ):
                raise InvalidInputError(
                    f"rows.{name} has shape {tuple(tensor.shape)}: give ({len(rows.x)}, {layout.width}), at least a row"
                )
            if not bool(torch.isfinite(tensor).all()):
                raise InvalidInputError(
                    f"rows.{name} holds NaN or infinity: fill or drop missing values first"
                )
            made[name] = tensor
        if rows.weight is not None:
            weight = torch.as_tensor(rows.weight).to(device=self.place, dtype=self.dtype)
            made["weight"] = weight / weight.sum()
        return Rows(**made)

    @staticmethod
    def _mean(values: Tensor, weight: Tensor | None) -> Tensor:
        return values.mean(0) if weight is None else (values * weight[:, None]).sum(0)

    def start(self) -> _State:
        """Before the first pass."""
        params = layers.start(self.method.networks(), self.seeds, self.dtype)
        count = len(self.seeds)
        return _State(
            params=params,
            moments={name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in params.items()},
            best_params={name: p.clone() for name, p in params.items()},
            best=torch.full((count,), math.inf, dtype=self.dtype, device=self.place),
            waited=torch.zeros(count, dtype=torch.int64, device=self.place),
            epochs=torch.zeros(count, dtype=torch.int64, device=self.place),
            losses=[],
            turns={player.name: 0 for player in self.method.players()},
        )

    def going(self, state: _State) -> Tensor:
        """Which members have not stopped, shape (B,)."""
        return state.waited < self.schedule.patience

    def advance(self, state: _State) -> None:
        """One pass over the rows, then the held-out loss."""
        n, size = len(self.train), min(self.schedule.batch_size, len(self.train))
        whole = size == n
        order = None
        if not whole:
            order = torch.argsort(uniform(self.seeds, ORDER, state.epoch + 1, (n,)), dim=1, stable=True)
            order = self.train[order]
        for first in range(0, n - size + 1, size):
            batch = self._batch(self.train if order is None else order[:, first : first + size])
            for player in self.method.players():
                for _ in range(player.steps):
                    self._step(state, player.name, player.networks, batch)
        state.epoch += 1
        self._judge(state)

    def _batch(self, rows: Tensor) -> Batch:
        """Rows for all members, by their places: (n,) where all see the same, else (B, n)."""
        count = len(self.seeds)

        def taken(values: Tensor) -> Tensor:
            found = values[rows]
            return found if rows.ndim == 2 else found.expand(count, *found.shape)

        x, s = taken(self._rows.x), taken(self._rows.s)
        u = x if self._rows.u is None else taken(self._rows.u)
        weight = None if self._rows.weight is None else taken(self._rows.weight)
        return Batch(x, s, u, weight, self.strength, self.mean_s)

    def _step(self, state: _State, player: str, networks: tuple[str, ...], batch: Batch) -> None:
        """One step of Adam for the networks of a player; each member's gradient is its own."""
        names = [name for name in state.params if name.split(".")[0] in networks]
        params = {name: value.detach().requires_grad_(name in names) for name, value in state.params.items()}
        turn = state.turns[player]
        number = list(state.turns).index(player)
        noise = Noise(self.seeds, _TURNS * turn + number, self.dtype)
        total = self.method.loss(player, params, batch, noise).sum()
        gradients = torch.autograd.grad(total, [params[name] for name in names], allow_unused=True)
        state.turns[player] = turn + 1
        self._adam(state, names, gradients, turn + 1)

    def _adam(self, state: _State, names: list[str], gradients: Sequence[Tensor | None], turn: int) -> None:
        first, second = 0.9, 0.999
        rate = self.schedule.learning_rate * self.schedule.last_rate ** (state.epoch / self.schedule.epochs)
        scale = rate / (1.0 - first**turn)
        bias = math.sqrt(1.0 - second**turn)
        with torch.no_grad():
            for name, gradient in zip(names, gradients, strict=True):
                if gradient is None:
                    continue
                mean, square = state.moments[name]
                mean.lerp_(gradient, 1.0 - first)
                square.mul_(second).addcmul_(gradient, gradient, value=1.0 - second)
                state.params[name] = (
                    state.params[name]
                    .detach()
                    .addcdiv(mean, square.sqrt().div_(bias).add_(1e-8), value=-scale)
                )

    def settle(self, state: _State) -> None:
        """Where a run was stopped before its held-out loss counted, what it has by then is what it is."""
        early = torch.isinf(state.best) & torch.isfinite(state.losses[-1])
        state.best = torch.where(early, state.losses[-1], state.best)
        for name, value in state.params.items():
            mask = early.reshape(-1, *([1] * (value.ndim - 1)))
            state.best_params[name] = torch.where(mask, value, state.best_params[name])

    def _judge(self, state: _State) -> None:
        """Held-out loss; the best weights of each member that has not stopped are kept."""
        going = self.going(state)
        with torch.no_grad():
            total = torch.zeros_like(state.best)
            size = max(self.schedule.batch_size, 1)
            whole = self._rows.weight is not None
            parts = [self.held] if whole else list(self.held.split(size))
            for number, rows in enumerate(parts):
                # Always the same draws: what differs between two passes is the weights.
                noise = Noise(self.seeds, _TURNS * number + _TURNS - 1, self.dtype)
                loss = self.method.loss("release", state.params, self._batch(rows), noise)
                total = total + loss * (len(rows) / len(self.held))
            counted = state.epoch > self._warm_up
            better = going & torch.isfinite(total) & (total < state.best) & counted
            state.best = torch.where(better, total, state.best)
            # The loss of a game is small also where the adversary is weak, so that its least value says little: the
            # weights that are kept are then the last ones.
            taken = going & torch.isfinite(total) & counted if self.method.game else better
            for name, value in state.params.items():
                mask = taken.reshape(-1, *([1] * (value.ndim - 1)))
                state.best_params[name] = torch.where(mask, value, state.best_params[name])
            state.waited = torch.where(better, 0, state.waited + (going & counted).long())
            state.epochs = state.epochs + going.long()
            state.losses.append(torch.where(going, total, torch.nan))

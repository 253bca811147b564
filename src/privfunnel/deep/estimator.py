"""The methods with scikit-learn's conventions: fit on X and what is private, then release codes or records of rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfunnel.checks import check_seed, is_number
from privfunnel.deep.checkpoint import load_tensors, save_tensors
from privfunnel.deep.codes import Code, DiscreteCode, GaussianCode, LaplaceCode, bounded
from privfunnel.deep.columns import Columns
from privfunnel.deep.exact import member
from privfunnel.deep.methods import METHODS, Method, Variables, method_from
from privfunnel.deep.methods.ppan import record_code
from privfunnel.deep.randomness import Noise
from privfunnel.deep.tensors import Tensor, torch
from privfunnel.deep.trainer import News, Rows, Schedule, Trained, train
from privfunnel.errors import GuaranteeWarning, InvalidInputError, need
from privfunnel.release.randomness import Uniforms, chosen_uniforms
from privfunnel.solvers.base import Progress
from privfunnel.storage import AnyPath
from privfunnel.watching import watching

need("sklearn", "deep")  # told before the imports below would fail without advice

from sklearn.base import BaseEstimator, TransformerMixin  # noqa: E402
from sklearn.utils import validation as _validation  # noqa: E402

_CODES: dict[str, type[Code]] = {"gaussian": GaussianCode, "laplace": LaplaceCode, "discrete": DiscreteCode}
#: Rows that are drawn at a time.
_ROWS = 65_536

Any_ = TypeVar("Any_", bound="DeepFunnel")


@dataclass(eq=False, repr=False)
class DeepFunnel(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What all deep estimators share; use one of its children.

    ``fit(X, s)`` learns an encoder that tells much of X, or of a ``task``, and little of ``s``; ``transform(X)`` draws
    codes. How much an attacker learns from them is no part of the training and is not promised by it: see
    :func:`privfunnel.deep.judge.judge`, on rows that were not fitted.

    Args:
        strength: Multiplier or budget, as the method says; None for its default.
        hidden: Widths of the inner layers.
        schedule: How long and how fast to train.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        seed: Fixes the training.
        random_state: For experiments only: makes the draws of ``transform`` reproducible.
        progress: Show how the training goes.

    Attributes:
        method_: The objective with its columns and code.
        params_: The learnt parameters, one member.
        trained_: How the training went: held-out losses, passes, seconds, device.
        n_features_in_: Number of columns seen in ``fit``; ``feature_names_in_`` their names, if they have any.
    """

    _method: ClassVar[str]
    #: Parameters that are the method's own.
    _own: ClassVar[tuple[str, ...]] = ()

    # scikit-learn reads the constructor's signature, which is made of these; everything is checked in ``fit``.
    strength: float | None = None
    _: KW_ONLY
    hidden: Sequence[int] = (64, 64)
    schedule: Schedule | None = None
    device: str = "auto"
    seed: int = 0
    random_state: int | None = None
    progress: bool = False

    def fit(self, X: Any, s: Any, task: Any = None) -> DeepFunnel:
        """Learn to release X.

        Args:
            X: A frame, an array or a tensor of shape (rows, …): numbers are numbers, all else categories; images are
                flattened. Missing categories are a category, missing numbers are refused.
            s: What is private, one or several columns: numbers of floating point with more than 20 values are numbers,
                all else classes.
            task: What the release is for, in the same way; X itself by default.
        """
        return sweep(self, X, s, strengths=[self._strength()], seeds=[self.seed], task=task, into=[self])[0]

    def transform(self, X: Any) -> NDArray[Any]:
        """Draw a release of the rows of X; two calls give different draws.

        Returns:
            Codes of shape (rows, size); the number of the symbol, (rows, 1), for discrete codes; records with the
            columns of ``fit`` for PPAN.
        """
        _validation.check_is_fitted(self)
        matrix = self.columns_.matrix(_checked(self, X, reset=False))
        uniforms = self._uniforms()
        parts = []
        for first in range(0, len(matrix), _ROWS):
            x = torch.as_tensor(matrix[first : first + _ROWS])[None]
            with torch.no_grad():
                output = self.method_.code.complete(self.params_, self.method_.encode(self.params_, x))
                parts.append(_drawn(self.method_, self.params_, output, uniforms))
        codes = np.concatenate(parts)
        if self._method == "ppan":
            return self._records(codes)
        return codes.argmax(axis=1)[:, None] if self.method_.code.kind == "discrete" else codes

    def posterior(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means and deviations of the Gaussian codes of rows, each (rows, size); see :func:`.judge.density_bounds`."""
        _validation.check_is_fitted(self)
        if self.method_.code.kind != "gaussian":
            raise InvalidInputError(
                f"a {self.method_.code.kind} code is not normal given x: use a Gaussian one"
            )
        x = torch.as_tensor(self.columns_.matrix(_checked(self, X, reset=False)))[None]
        with torch.no_grad():
            output = self.method_.code.complete(self.params_, self.method_.encode(self.params_, x))[
                0
            ].double()
            mean, spread = output.split(self.method_.code.size, dim=-1)
            return mean.numpy(), torch.exp(bounded(spread)).numpy()

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the columns that ``transform`` gives."""
        _validation.check_is_fitted(self)
        if self._method == "ppan":
            return np.array(self.order_, dtype=object)
        kind, size = self.method_.code.kind, self.method_.code.size
        names = ["released"] if kind == "discrete" else [f"released{i}" for i in range(size)]
        return np.array(names, dtype=object)

    def save(self, path: AnyPath) -> None:
        """Write the fitted estimator to one safetensors file with a JSON header, for the user alone; no pickles."""
        _validation.check_is_fitted(self)
        given = {name: value for name, value in self.get_params(deep=False).items() if name != "schedule"}
        given["hidden"] = list(self.hidden)
        about = {
            "estimator": type(self).__name__, "parameters": given, "method": self.method_.to_dict(),
            "columns": self.columns_.to_dict(), "order": list(self.order_), "features": self.n_features_in_,
            "names": [str(name) for name in getattr(self, "feature_names_in_", [])],
        }  # fmt: skip
        save_tensors(path, self.params_, about)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what to expect: categories, texts, and draws that depend on the place of a row."""
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []
        tags.non_deterministic = True
        return tags

    def _strength(self) -> float:
        given = METHODS[self._method].default_strength if self.strength is None else self.strength
        if not is_number(given) or not math.isfinite(given) or given < 0.0:
            raise InvalidInputError(f"strength={given!r} is not usable: give a finite number ≥ 0")
        return float(given)

    def _code(self, variables: Variables) -> Code:
        """What is released of a row: here a record like those of X."""
        return record_code(variables.x)

    def _build(self, variables: Variables) -> Method:
        code = self._code(variables)
        if not isinstance(self.hidden, Sequence):
            raise InvalidInputError(
                f"hidden={self.hidden!r} are no widths: give whole numbers ≥ 1, e.g. (64, 64)"
            )
        own = {name: getattr(self, name) for name in self._own}
        return METHODS[self._method](variables=variables, code=code, hidden=tuple(self.hidden), **own)

    def _keep(self, method: Method, done: Trained, number: int, columns: Columns, X: Any) -> None:
        self.method_, self.params_, self.columns_ = method, member(done.params, number), columns
        self.order_ = _names_of(X)
        self.trained_ = done._replace(
            params={},
            losses=done.losses[:, number],
            best=float(done.best[number]),
            epochs=int(done.epochs[number]),
        )

    def _uniforms(self) -> Uniforms:
        if self.random_state is not None:
            warnings.warn(
                f"random_state={self.random_state!r} makes the draws predictable: for experiments only",
                GuaranteeWarning,
                stacklevel=3,
            )
        return chosen_uniforms(self.random_state)

    def _records(self, matrix: NDArray[Any]) -> NDArray[Any]:
        table = self.columns_.table(matrix)
        parts = [table[name] for name in self.order_]
        numeric = all(part.dtype.kind == "f" for part in parts)
        return np.stack([part if numeric else part.astype(object) for part in parts], axis=1)


@dataclass(eq=False, repr=False, kw_only=True)
class CodingFunnel(DeepFunnel):
    """What deep estimators share that release codes.

    Args:
        code: ``"gaussian"``, ``"laplace"`` or ``"discrete"``.
        size: Numbers in a code, or symbols of a discrete one.
    """

    code: str = "gaussian"
    size: int = 8

    def _code(self, variables: Variables) -> Code:
        if self.code not in _CODES:
            raise InvalidInputError(f"code={self.code!r} is not known: use one of {', '.join(_CODES)}")
        return _CODES[self.code](size=self.size)


def sweep(
    estimator: Any_,
    X: Any,
    s: Any,
    *,
    strengths: Sequence[float],
    seeds: Sequence[int] = (0,),
    task: Any = None,
    into: Sequence[Any_] | None = None,
    keep: AnyPath | None = None,
) -> list[Any_]:
    """Fit one estimator for every strength and seed, all as one batch.

    Args:
        estimator: What to fit; it is left as it is.
        X: As in :meth:`DeepFunnel.fit`; ``s`` and ``task`` likewise.
        s: What is private.
        strengths: Multipliers or budgets.
        seeds: Seeds of each.
        task: What the release is for.
        into: Estimators to fit instead of copies.
        keep: A file for checkpoints; see :func:`privfunnel.deep.trainer.train`.

    Returns:
        Fitted estimators, the seeds of a strength beside each other.
    """
    members = [(strength, seed) for strength in strengths for seed in seeds]
    for _, seed in members:
        check_seed(seed)
    if not members:
        raise InvalidInputError("there is nothing to fit: give at least one strength and one seed")
    clone = need("sklearn.base", "deep").clone
    fitted = list(into or [clone(estimator).set_params(strength=a, seed=b) for a, b in members])
    X = _checked(fitted[0], X, reset=True)
    for other in fitted[1:]:
        _checked(other, X, reset=True)
    _validation.check_consistent_length(X, s, *([] if task is None else [task]))
    columns = [Columns.of(X), Columns.of(s, classes=True)] + (
        [] if task is None else [Columns.of(task, classes=True)]
    )
    tables = [X, s] + ([] if task is None else [task])
    method = fitted[0]._build(Variables(*(each.layout for each in columns)))
    rows = Rows(*(each.matrix(table) for each, table in zip(columns, tables, strict=True)))
    with watching(fitted[0].progress) as listener:

        def listen(news: News) -> None:
            if listener is not None:
                message = f"{news.going} training, loss {news.loss:.4f} nats"
                listener(Progress(done=news.done, total=news.total, message=message))

        done = train(
            method, rows, [a for a, _ in members], [b for _, b in members], estimator.schedule,
            device=estimator.device, keep=None if keep is None else Path(keep), listen=listen,
        )  # fmt: skip
    for number, each in enumerate(fitted):
        each._keep(method, done, number, columns[0], X)
    return fitted


def load(path: AnyPath) -> DeepFunnel:
    """Read what :meth:`DeepFunnel.save` wrote."""
    from privfunnel.deep import estimators

    tensors, about = load_tensors(path)
    try:
        cls: type[DeepFunnel] = getattr(estimators, str(about["estimator"]))
        made = cls(**{**about["parameters"], "hidden": tuple(about["parameters"]["hidden"])})
        made.method_, made.params_ = method_from(about["method"]), tensors
        made.columns_, made.order_ = Columns.from_dict(about["columns"]), list(about["order"])
        made.n_features_in_ = int(about["features"])
        if about["names"]:
            made.feature_names_in_ = np.array(about["names"], dtype=object)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidInputError(
            f"{str(path)!r} holds no fitted estimator ({error}): write it again"
        ) from error
    return made


def _checked(estimator: DeepFunnel, X: Any, *, reset: bool) -> Any:
    """X as a frame or a flat array; its columns are remembered, or compared with those of ``fit``."""
    if hasattr(X, "detach"):
        X = X.detach().cpu().numpy()
    if not hasattr(X, "columns"):
        X = np.asarray(X)
        if X.ndim > 2:
            X = X.reshape(len(X), -1)
        if X.ndim < 2 or 0 in X.shape:
            raise InvalidInputError(f"X has shape {X.shape}: give (rows, columns), at least one of each")
    return _validation.validate_data(estimator, X, reset=reset, skip_check_array=True)


def _names_of(X: Any) -> list[str]:
    return (
        [str(name) for name in X.columns] if hasattr(X, "columns") else [f"x{j}" for j in range(X.shape[1])]
    )


class _Drawing(Noise):
    """Noise of a release: from the operating system, or from the seed of an experiment."""

    def __init__(self, uniforms: Uniforms, dtype: Tensor) -> None:
        self.uniforms, self.dtype = uniforms, dtype

    def uniform(self, stream: int, shape: tuple[int, ...]) -> Tensor:
        """Uniform numbers in (0, 1), shape (1, *shape)."""
        numbers = self.uniforms(math.prod(shape)).clip(2.0**-24, 1.0 - 2.0**-24)
        return torch.as_tensor(numbers).to(self.dtype).reshape(1, *shape)


def _drawn(method: Method, params: Any, output: Tensor, uniforms: Uniforms) -> NDArray[Any]:
    """One code of each row, (rows, size), for the parameters of q(y|x), (1, rows, outputs)."""
    noise = _Drawing(uniforms, torch.float64)
    code = method.code
    if isinstance(code, DiscreteCode) and code.listed:
        code = DiscreteCode(size=code.size)  # one symbol, not all of them
    elif isinstance(code, GaussianCode) and code.additive:
        code = GaussianCode(size=code.size)  # the noise is in the output by now
    wide = {name: value.double() for name, value in params.items()}
    drawn: NDArray[Any] = code.draw(wide, output.double(), noise).y[0].numpy()
    return drawn

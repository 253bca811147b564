"""The methods with scikit-learn's conventions: fit on X and what is private, then release codes or records of rows."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfunnel.errors import CollapsedReleaseWarning, GuaranteeWarning, InvalidInputError, need
from privfunnel.infra.checks import check_seed, is_number
from privfunnel.infra.storage import AnyPath
from privfunnel.infra.watching import Progress, watching
from privfunnel.learning.deep.audits import Audit, Audited, audited
from privfunnel.learning.deep.checkpoint import load_tensors, save_tensors
from privfunnel.learning.deep.codes import Code, DiscreteCode, GaussianCode, LaplaceCode, bounded
from privfunnel.learning.deep.columns import Columns
from privfunnel.learning.deep.exact import mean_rate, member
from privfunnel.learning.deep.methods import METHODS, Method, Variables, method_from
from privfunnel.learning.deep.methods.ppan import record_code
from privfunnel.learning.deep.randomness import Noise
from privfunnel.learning.deep.tensors import Tensor, torch
from privfunnel.learning.deep.trainer import News, Rows, Schedule, Trained, train
from privfunnel.release.randomness import Uniforms, chosen_uniforms

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
    :meth:`audit`, on rows that were not fitted.

    Args:
        strength: Multiplier or budget, as the method says; None for its default, or what is less strict where the
            release collapses at that.
        hidden: Widths of the inner layers.
        schedule: How long and how fast to train; by default what suits the number of rows.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        seed: Fixes the training.
        random_state: For experiments only: makes the draws of ``transform`` reproducible.
        progress: Show how the training goes.

    Attributes:
        method_: The objective with its columns and code.
        params_: The learnt parameters, one member.
        strength_: The strength that was used.
        rate_: Mean rate of the rows of ``fit`` in nats, at least I(X;Y); infinite for records, which have none.
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

    def fit(self, X: object, s: object, task: object = None) -> DeepFunnel:
        """Learn to release X.

        Args:
            X: A frame, an array or a tensor of shape (rows, …): numbers are numbers, all else categories; images are
                flattened. Missing categories are a category, missing numbers are refused.
            s: What is private, one or several columns: numbers of floating point with more than 20 values are numbers,
                all else classes.
            task: What the release is for, in the same way; X itself by default.
        """
        further = METHODS[self._method].looser_strengths if self.strength is None else ()
        for strength in (self._strength(), *further):
            sweep(self, X, s, strengths=[strength], seeds=[self.seed], task=task, into=[self])
            if not self._collapsed():
                return self
        warnings.warn(
            f"the release has collapsed: at strength {strength:g} it tells at most {self.rate_:.4f} nats, as good as "
            f"nothing: give {self._looser(strength)}, or more rows",
            CollapsedReleaseWarning,
            stacklevel=2,
        )
        return self

    def _looser(self, strength: float) -> str:
        """What to give where a release has collapsed at some strength."""
        method = METHODS[self._method]
        larger = [each > method.default_strength for each in method.looser_strengths]
        left = [
            each
            for each, up in zip(method.looser_strengths, larger, strict=True)
            if (each > strength if up else each < strength)
        ]
        return f"strength={left[0]:g}" if left else "another code or another size"

    def transform(self, X: object) -> NDArray[Any]:
        """Draw a release of the rows of X; two calls give different draws.

        Returns:
            Codes of shape (rows, size); the number of the symbol, (rows, 1), for discrete codes; records with the
            columns of ``fit`` for PPAN.
        """
        _validation.check_is_fitted(self)
        return self._drawn(self.columns_.matrix(_checked(self, X, reset=False)))

    def _drawn(self, matrix: NDArray[Any]) -> NDArray[Any]:
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

    def posterior(self, X: object) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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

    def audit(self, X: object, s: object, *, seed: int = 0, most_rows: int = 4000) -> Audit:
        """What a release of rows that were not fitted tells attackers, against what the rows themselves tell them.

        Args:
            X: Rows with the columns of ``fit``, at least 100.
            s: What is private of them, as in ``fit``.
            seed: Fixes the halves, the folds and the attackers.
            most_rows: More rows than this are sampled.
        """
        _validation.check_is_fitted(self)
        X = _checked(self, X, reset=False)
        matrix = self.columns_.matrix(X)
        if getattr(self, "digest_", None) == _digest(matrix):
            warnings.warn(
                "these are the rows of fit, and an audit on them flatters the release: give rows kept apart",
                GuaranteeWarning,
                stacklevel=2,
            )
        densities = self.posterior(X) if self.method_.code.kind == "gaussian" else None
        codes = self._drawn(matrix)
        return audited(Audited(codes, matrix, densities), s, seed=seed, most_rows=most_rows)

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
        given = {**self.get_params(deep=False), "hidden": list(self.hidden)}
        given["schedule"] = None if self.schedule is None else asdict(self.schedule)
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

    def _collapsed(self) -> bool:
        """Whether less than a twentieth of a nat is told, or of what the columns hold where that is less."""
        # A release that tells less than this, in nats or as a share of what there is, has collapsed.
        return self.rate_ < 0.05 * min(self.held_, 1.0)

    def _keep(self, method: Method, done: Trained, number: int, columns: Columns, rows: Rows) -> None:
        self.method_, self.params_, self.columns_ = method, member(done.params, number), columns
        self.digest_ = _digest(rows.x)
        self.rate_ = mean_rate(method, self.params_, rows.x[:_ROWS])
        useful = rows.x if rows.u is None else rows.u
        self.held_ = method.variables.useful.information(useful.mean(axis=0))
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
                stacklevel=4,
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
    X: object,
    s: object,
    *,
    strengths: Sequence[float],
    seeds: Sequence[int] = (0,),
    task: object = None,
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
        keep: A file for checkpoints; see :func:`privfunnel.learning.deep.trainer.train`.

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
    tables = [X, s] + ([] if task is None else [task])
    columns = [Columns.of(X), *(_labels(*each) for each in zip(("s", "task"), tables[1:], strict=False))]
    method = fitted[0]._build(Variables(*(each.layout for each in columns)))
    rows = Rows(*(each.matrix(table) for each, table in zip(columns, tables, strict=True)))
    if any(len(part) != len(rows.x) for part in (rows.s, *([] if task is None else [rows.u]))):
        raise InvalidInputError(
            f"X has {len(rows.x)} rows and s {len(rows.s)}: give s, and a task, for every row"
        )
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
        each._keep(method, done, number, columns[0], rows)
        each.order_, each.strength_ = _names_of(X), members[number][0]
    return fitted


def load(path: AnyPath) -> DeepFunnel:
    """Read what :meth:`DeepFunnel.save` wrote."""
    from privfunnel.learning.deep import estimators

    tensors, about = load_tensors(path)
    try:
        cls: type[DeepFunnel] = getattr(estimators, str(about["estimator"]))
        given = {**about["parameters"], "hidden": tuple(about["parameters"]["hidden"])}
        if given.get("schedule") is not None:
            given["schedule"] = Schedule(**given["schedule"])
        made = cls(**given)
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
    if hasattr(X, "toarray"):
        raise InvalidInputError("X is a sparse matrix: give X.toarray()")
    if hasattr(X, "__getitem__") and type(X).__module__.startswith("torch.utils.data"):
        raise InvalidInputError("X is a data set: give fit(*deep.data.from_torch(data_set))")
    if hasattr(X, "detach"):
        X = X.detach().cpu().numpy()
    if hasattr(X, "columns") and not len(X):
        raise InvalidInputError("X has no rows: give at least one")
    if not hasattr(X, "columns"):
        X = np.asarray(X)
        if X.ndim > 2:
            X = X.reshape(len(X), -1)
        if X.ndim < 2 or 0 in X.shape:
            raise InvalidInputError(f"X has shape {X.shape}: give (rows, columns), at least one of each")
    return _validation.validate_data(estimator, X, reset=reset, skip_check_array=True)


def _labels(what: str, table: object) -> Columns:
    """The columns of what is private, or of the task."""
    if table is None:
        raise InvalidInputError(f"{what} is missing: give one or several columns")
    found = Columns.of(table, classes=True)
    if all(column.values is not None and len(column.values) == 1 for column in found.columns):
        raise InvalidInputError(f"{what} has a single value in all rows: there is nothing to tell or to hide")
    return found


def _digest(matrix: NDArray[Any]) -> bytes:
    """By which rows are known again."""
    return hashlib.sha256(np.ascontiguousarray(matrix).tobytes()).digest()


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

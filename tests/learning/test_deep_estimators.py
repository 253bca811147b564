"""Deep estimators with scikit-learn's conventions, and the judge who knows nothing of them but what they release."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from privfunnel import measures
from privfunnel.errors import CollapsedReleaseWarning, GuaranteeWarning, InvalidInputError

pytest.importorskip("torch", reason="deep funnels need PyTorch")
pytest.importorskip("safetensors", reason="deep funnels are kept as safetensors")
pytest.importorskip("sklearn", reason="the estimators follow scikit-learn")

import pandas as pd
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from privfunnel.learning import deep
from privfunnel.learning.deep import data
from privfunnel.learning.deep.audits import Audited, audited, explained
from privfunnel.learning.deep.columns import Columns
from privfunnel.learning.deep.estimator import DeepFunnel
from privfunnel.learning.deep.judge import density_bounds, judge
from privfunnel.learning.deep.layout import Layout
from privfunnel.learning.deep.methods import METHODS, Variables

SHORT = deep.Schedule(epochs=2, batch_size=64, warm_up=0)
ESTIMATORS = [deep.VPAF, deep.CLUB, deep.DVPF, deep.DCA, deep.PPAN, deep.ALR]


def people(n: int = 120) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    age = rng.normal(40.0, 10.0, n)
    town = rng.choice(["north", "south"], n)
    frame = pd.DataFrame({"town": town, "age": age, "paid": rng.normal(size=n)})
    return frame, np.where(age + rng.normal(0.0, 5.0, n) > 40.0, "old", "young")


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_estimator_fits_a_frame_and_releases_rows(cls: type[DeepFunnel]) -> None:
    frame, s = people()
    model = cls(hidden=(4,), schedule=SHORT, device="cpu")
    copy = clone(model).set_params(seed=3)
    assert copy.get_params()["seed"] == 3
    released = model.fit(frame, s).transform(frame)
    assert len(released) == len(frame)
    assert released.shape[1] == len(model.get_feature_names_out())
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.trained_.epochs == 2
    assert not np.array_equal(model.transform(frame), released)  # draws, not a function


@pytest.mark.filterwarnings("ignore:the release has collapsed")  # after two passes
@pytest.mark.parametrize("code", ["gaussian", "laplace", "discrete"])
def test_saved_and_read_back_it_releases_the_same(code: str, tmp_path: Path) -> None:
    frame, s = people()
    model = deep.VPAF(code=code, size=3, hidden=(4,), schedule=SHORT, device="cpu", random_state=5).fit(
        frame, s
    )
    model.save(tmp_path / "model.safetensors")
    again = deep.load(tmp_path / "model.safetensors")
    with pytest.warns(GuaranteeWarning, match="predictable"):
        released = model.transform(frame)
    with pytest.warns(GuaranteeWarning, match="predictable"):
        assert np.array_equal(again.transform(frame), released)
    assert released.shape == (len(frame), 1 if code == "discrete" else 3)
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o077 == 0


def test_defaults_are_those_of_the_methods_and_the_schedule_is_saved(tmp_path: Path) -> None:
    for cls in ESTIMATORS:
        given = {each.name: each.default for each in fields(METHODS[cls._method])}
        assert {name: getattr(cls(), name) for name in cls._own} == {name: given[name] for name in cls._own}
    frame, s = people()
    deep.DVPF(hidden=(4,), schedule=SHORT, device="cpu").fit(frame, s).save(tmp_path / "a.safetensors")
    assert deep.load(tmp_path / "a.safetensors").schedule == SHORT


def test_a_game_has_a_price_on_the_rate_where_none_is_given() -> None:
    layout = Variables(Layout(3), Layout(0, (2,)))
    found = [METHODS["club"](variables=layout, form=form).rate_weight for form in ("P1", "P3")]
    found += [METHODS["dvpf"](variables=layout, bound=bound).rate_weight for bound in ("upper", "lower")]
    assert found == [0.001, 0.5, 0.001, 0.5]
    assert METHODS["club"](variables=layout, form="P3", complexity=0.0).rate_weight == 0.0


def test_without_a_schedule_there_are_about_as_many_steps_for_any_number_of_rows() -> None:
    for rows in (2000, 8000):
        assert deep.Schedule.of(rows).epochs * rows / 256 == pytest.approx(2000, rel=0.02)
    assert (deep.Schedule.of(0).epochs, deep.Schedule.of(10**6).epochs) == (400, 40)


def test_records_have_the_columns_and_values_of_the_table() -> None:
    frame, s = people()
    frame["visits"] = np.arange(len(frame)) % 7
    model = deep.PPAN(strength=0.2, hidden=(4,), schedule=SHORT, device="cpu").fit(frame, s)
    released = pd.DataFrame(model.transform(frame), columns=model.get_feature_names_out())
    assert list(released.columns) == list(frame.columns)
    assert set(released["town"]) <= {"north", "south"}
    assert 0.0 < float(released["age"].astype(float).mean()) < 80.0
    assert (released["visits"] == released["visits"].astype(int)).all()  # whole numbers stay whole
    assert not (released["age"] == released["age"].astype(int)).all()


def test_a_sweep_is_what_single_fits_are() -> None:
    frame, s = people()
    base = deep.VPAF(hidden=(4,), schedule=deep.Schedule(epochs=2, warm_up=0, double=True), device="cpu")
    several = deep.sweep(base, frame, s, strengths=[1.0, 2.0], seeds=[0, 1])
    assert [(model.strength, model.seed) for model in several] == [(1.0, 0), (1.0, 1), (2.0, 0), (2.0, 1)]
    single = clone(base).set_params(strength=2.0, seed=1).fit(frame, s)
    for name, value in single.params_.items():
        assert torch.allclose(several[3].params_[name], value, rtol=1e-9, atol=1e-11)


def test_it_works_in_a_pipeline_on_arrays_images_and_data_sets() -> None:
    rng = np.random.default_rng(1)
    x, s = rng.normal(size=(80, 3)), rng.integers(0, 2, 80)
    pipe = make_pipeline(StandardScaler(), deep.VPAF(size=2, hidden=(4,), schedule=SHORT, device="cpu"))
    assert pipe.fit_transform(x, s).shape == (80, 2)
    images = rng.normal(size=(80, 4, 4))
    model = deep.DVPF(size=2, hidden=(4,), schedule=SHORT, device="cpu").fit(torch.tensor(images), s, task=s)
    assert model.transform(images).shape == (80, 2)
    stacked = torch.utils.data.TensorDataset(torch.tensor(images), torch.tensor(s))
    flat, private = data.from_torch(stacked)
    assert flat.shape == (80, 16)
    assert np.array_equal(private, s)


def test_the_progress_is_shown_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    frame, s = people()
    deep.VPAF(hidden=(4,), schedule=SHORT, device="cpu", progress=True).fit(frame, s)
    assert "training" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda frame, s: deep.VPAF(code="cauchy").fit(frame, s), "code='cauchy'"),
        (lambda frame, s: deep.VPAF(strength=-1.0).fit(frame, s), "strength=-1.0"),
        (lambda frame, s: deep.VPAF(seed=-1).fit(frame, s), "seed=-1"),
        (lambda frame, s: deep.VPAF().fit(frame.assign(age=np.nan), s), "'age' has missing"),
        (lambda frame, s: deep.VPAF().fit(np.zeros(3), s), "shape"),
        (lambda frame, s: Columns.of(frame).matrix(frame.assign(town="west")), "'west'"),
        (lambda frame, s: Columns.of(frame).matrix(frame.drop(columns="town")), "'town' is missing"),
        (lambda frame, s: Columns.of(frame).matrix(frame.assign(age="old")), "was numbers"),
        (lambda frame, s: Columns.of(pd.concat([frame, frame], axis=1)), "same name"),
        (lambda frame, s: Columns.of(np.zeros((0, 2))), "nothing to learn"),
        (lambda frame, s: judge(np.zeros((10, 2)), s[:10]), "too few"),
        (lambda frame, s: judge(np.zeros((10, 2)), s), "one of each"),
        (lambda frame, s: judge(np.zeros((9, 2, 2)), s[:9]), "shape"),
        (lambda frame, s: data.from_torch([]), "empty"),
        (lambda frame, s: deep.VPAF(hidden=64).fit(frame, s), "hidden=64"),
        (lambda frame, s: deep.VPAF(seed=2**64).fit(frame, s), "seeds="),
        (lambda frame, s: deep.VPAF(schedule={"epochs": 1}).fit(frame, s), "no schedule"),
        (lambda frame, s: deep.sweep(deep.VPAF(), frame, s, strengths=[]), "nothing to fit"),
        (lambda frame, s: deep.VPAF().fit(frame, None), "s is missing"),
        (lambda frame, s: deep.VPAF().fit(frame, np.zeros(80)), "single value"),
        (lambda frame, s: deep.VPAF().fit(frame, s, task=s[:-1]), "for every row"),
        (lambda frame, s: deep.VPAF().fit(sparse.csr_matrix(np.eye(80)), s), "toarray"),
        (
            lambda frame, s: deep.VPAF().fit(torch.utils.data.TensorDataset(torch.ones(80, 2)), s),
            "from_torch",
        ),
        (lambda frame, s: data.from_frame(frame, "nothing"), "no column 'nothing'"),
        (lambda frame, s: data.from_frame(frame.to_numpy(), "town"), "is no frame"),
        (lambda frame, s: Columns.of(frame.assign(age=1e200)), "huge"),
        (lambda frame, s: Columns.of(np.array([1j, 2j])), "complex"),
        (lambda frame, s: Columns.of(np.array([f"no. {i}" for i in range(2001)])), "leave identifiers out"),
        (lambda frame, s: deep.VPAF().fit(frame[:0], s[:0]), "no rows"),
        (lambda frame, s: data.from_frame(frame, list(frame.columns)), "leave no columns"),
        (lambda frame, s: explained(np.zeros((20, 2)), np.zeros((20, 2))), "too few to audit"),
        (lambda frame, s: audited(Audited(np.zeros((9, 2)), np.zeros((9, 2)), None), s), "rows and s 80"),
        (
            lambda frame, s: deep.VPAF().fit(pd.DataFrame({"day": pd.date_range("2020", periods=80)}), s),
            "dates",
        ),
        (lambda frame, s: judge(np.full((200, 2), np.nan), np.arange(200) % 2), "NaN"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(wrong, told: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInputError, match=told) as caught:
        wrong(*people(80))
    assert "\n" not in str(caught.value)


def test_columns_can_be_written_down_and_undone() -> None:
    frame, _ = people(30)
    frame["town"] = frame["town"].astype("string")
    frame.loc[3, "town"] = None
    columns = Columns.of(frame)
    assert Columns.from_dict(columns.to_dict()) == columns
    table = columns.table(columns.matrix(frame).astype(float))
    assert table["age"] == pytest.approx(frame["age"].to_numpy(), rel=1e-5)
    assert table["town"][3] == "(missing)"
    assert table["town"][4] == frame["town"][4]


# --- the judge ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told() -> tuple[np.ndarray, np.ndarray]:
    """Codes that say S through a sign that no straight line finds, and S."""
    rng = np.random.default_rng(4)
    codes = rng.normal(size=(1600, 2))
    right = rng.random(1600) < 0.9
    return codes, np.where(right, codes[:, 0] * codes[:, 1] > 0.0, codes[:, 0] * codes[:, 1] <= 0.0).astype(
        int
    )


def test_attackers_find_what_is_there_and_nothing_where_there_is_nothing(told) -> None:  # type: ignore[no-untyped-def]
    codes, s = told
    found = judge(codes, s)
    assert found.best.name != "logistic regression"
    assert found.best.accuracy.low > 0.75 > found.prior.high
    truth = float(measures.mutual_information([[0.45, 0.05], [0.05, 0.45]]))
    assert 0.0 < found.best.information.low < truth  # a lower bound of I(S;Y)
    assert "best attacker" in found.words
    nothing = judge(codes, np.random.default_rng(9).permutation(s))
    assert nothing.best.accuracy.low < nothing.prior.high
    assert nothing.best.information.low < 0.0


def test_private_numbers_are_judged_by_quarters_and_several_columns_together(told) -> None:  # type: ignore[no-untyped-def]
    codes, _ = told
    numbers = judge(codes[:300], codes[:300, 0])
    assert numbers.prior.high < 0.5 < numbers.best.accuracy.low
    both = judge(codes[:300], np.stack([codes[:300, 1] > 0, codes[:300, 0] > 0], axis=1))
    assert both.prior.high < 0.5 < both.best.accuracy.low


def test_an_audit_tells_what_is_hidden_and_what_is_kept() -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"])
    frame["hidden"] = np.where(frame["a"] > 0.0, "yes", "no")
    x, s, task = data.from_frame(frame, "hidden")
    assert task is None
    assert list(x.columns) == ["a", "b", "c"]
    codes = x[["b", "c"]].to_numpy()  # one column of three is hidden, and S is in it
    found = audited(Audited(codes, x.to_numpy(), (codes, np.full_like(codes, 9.0))), s)
    assert found.rows.best.accuracy.low > 0.9
    assert found.release.best.accuracy.high < 0.7
    assert found.kept == pytest.approx(2.0 / 3.0, abs=0.1)
    assert found.bounds is not None
    assert 0.0 <= found.bounds.low <= found.bounds.high < 0.1  # noise nine times as large as the columns
    assert "From the rows themselves" in found.words
    assert explained(np.zeros((200, 1)), np.ones((200, 2))) == 1.0  # nothing to tell


def test_an_audit_on_the_rows_of_fit_is_said_to_flatter() -> None:
    frame, s = people()
    model = deep.PPAN(hidden=(4,), schedule=SHORT, device="cpu").fit(frame, s)
    with pytest.warns(GuaranteeWarning, match="flatters"):
        found = model.audit(frame, s)
    assert found.bounds is None
    assert found.release.rows == len(frame)


def test_symbols_and_records_can_be_attacked(told) -> None:  # type: ignore[no-untyped-def]
    codes, s = told
    symbols = (2 * (codes[:, 0] > 0) + (codes[:, 1] > 0))[:400, None]
    assert judge(symbols, s[:400]).best.accuracy.low > 0.7
    records = np.array([["a" if each else "b", "c"] for each in s[:400]], dtype=object)
    assert judge(records, s[:400]).best.accuracy.value == 1.0


def test_density_bounds_hold_between_nothing_and_everything() -> None:
    rng = np.random.default_rng(6)
    s = np.repeat([0, 1], 100)
    same = density_bounds(np.zeros((200, 2)), np.ones((200, 2)), s)
    assert (same.low, same.high) == pytest.approx((0.0, 0.0), abs=1e-12)
    apart = density_bounds(np.stack([100.0 * s, 0.0 * s], axis=1), np.ones((200, 2)), s)
    assert (apart.low, apart.high) == pytest.approx((np.log(2.0), np.log(2.0)))
    mean = np.stack([s + 0.3 * rng.normal(size=200), rng.normal(size=200)], axis=1)
    found = density_bounds(mean, np.full((200, 2), 0.7), s)
    y = (mean[:, None] + 0.7 * rng.normal(size=(200, 40, 2))).reshape(-1, 2)
    logs = -0.5 * ((y[:, None] - mean[None]) ** 2).sum(-1) / 0.49
    density = np.exp(logs)
    given = np.where(np.repeat(s, 40) == 0, density[:, :100].mean(1), density[:, 100:].mean(1))
    value, error = measures.sampled_information(np.log(given / density.mean(1)))
    assert found.low - 5 * error < value < found.high + 5 * error


def test_the_posterior_of_a_gaussian_code_is_told_and_no_other() -> None:
    frame, s = people(80)
    mean, deviation = (
        deep.VPAF(size=2, hidden=(4,), schedule=SHORT, device="cpu").fit(frame, s).posterior(frame)
    )
    assert mean.shape == deviation.shape == (80, 2)
    assert (deviation > 0.0).all()
    with pytest.raises(InvalidInputError, match="not normal"):
        deep.VPAF(code="laplace", hidden=(4,), schedule=SHORT, device="cpu").fit(frame, s).posterior(frame)


def test_a_file_without_an_estimator_is_refused(tmp_path: Path) -> None:
    from privfunnel.learning.deep.checkpoint import save_tensors

    save_tensors(tmp_path / "a.safetensors", {"a": torch.ones(1)}, {"estimator": "CLUB"})
    with pytest.raises(InvalidInputError, match="holds no fitted estimator"):
        deep.load(tmp_path / "a.safetensors")
    with pytest.raises(AttributeError, match="no attribute"):
        _ = deep.nothing
    assert "CLUB" in dir(deep)


def test_digits_are_coloured_as_often_as_said() -> None:
    images, colour, digit = data.coloured_digits(seed=1, agreement=0.8)
    assert images.shape == (1797, 128)
    assert (colour == (digit >= 5)).mean() == pytest.approx(0.8, abs=5 * 0.4 / 1797**0.5)
    assert not images[colour == 0, 64:].any()
    made = data.images(images, colour, digit)
    assert made.variables.useful.groups == (10,)


def test_adult_is_read_as_codes(tmp_path: Path) -> None:
    row = "39, State-gov, 77516, Bachelors, 13, Never-married, Clerical, Own-child, White, {}, 2174, 0, 40, US, {}"
    lines = [row.format("Male", "<=50K"), row.format("Female", ">50K"), ""]
    (tmp_path / "adult.data").write_text("\n".join(lines))
    x, s = data.adult(tmp_path / "adult.data")
    assert x.shape == (2, 7)
    assert s.tolist() == [0, 1]
    assert data.adult(tmp_path / "adult.data", private="sex")[1].tolist() == [1, 0]
    assert data.from_codes(x, s).variables.s.width == 2
    (tmp_path / "empty.data").write_text("nothing\n")
    with pytest.raises(InvalidInputError, match="no row of 15 columns"):
        data.adult(tmp_path / "empty.data")


def workers(n: int = 1000) -> tuple[pd.DataFrame, np.ndarray]:
    """One public column of forty values, and a private one that depends on it."""
    rng = np.random.default_rng(0)
    job, ill = rng.integers(0, 40, n), rng.uniform(0.1, 0.9, 40)
    return pd.DataFrame({"job": [f"j{each}" for each in job]}), (rng.random(n) < ill[job]).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("cls", [deep.VPAF, deep.CLUB, deep.DVPF])
def test_at_its_default_a_method_tells_something_of_forty_values(cls: type[DeepFunnel]) -> None:
    frame, s = workers()
    model = cls(code="discrete", device="cpu").fit(frame, s)  # a warning would be an error here
    assert model.rate_ > 0.5
    share = pd.crosstab(frame["job"], model.transform(frame)[:, 0]).to_numpy() / len(frame)
    assert measures.mutual_information(share) > 0.5


@pytest.mark.parametrize(
    ("cls", "strength", "remedy"),
    [(deep.VPAF, 1.0, "strength=2"), (deep.DVPF, 50.0, "strength=1"), (deep.VPAF, 9.0, "another code")],
)
def test_who_fits_a_release_that_collapsed_is_told(
    cls: type[DeepFunnel], strength: float, remedy: str
) -> None:
    frame, s = workers(200)
    with pytest.warns(
        CollapsedReleaseWarning, match=f"at strength {strength:g} it tells at most .*: give {remedy}"
    ):
        model = cls(strength=strength, code="discrete", hidden=(4,), schedule=SHORT, device="cpu").fit(
            frame, s
        )
    assert model.strength_ == strength


def test_an_audit_begins_with_what_the_release_keeps() -> None:
    frame, s = people(400)
    model = deep.VPAF(hidden=(4,), schedule=SHORT, device="cpu").fit(frame[:200], s[:200])
    found = model.audit(frame[200:], s[200:])
    first = found.words.split("; it shows")[0]
    assert first.startswith(
        f"The release keeps {100 * found.kept:.0f} % of the variance of the rows, and the best"
    )
    assert "right for" in first

"""The scikit-learn transformer: its contract, pipelines, and what it releases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from funnels import people
from privfunnel.errors import GuaranteeWarning, InvalidInputError

sklearn = pytest.importorskip("sklearn")
base = pytest.importorskip("sklearn.base")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

linear_model = pytest.importorskip("sklearn.linear_model")
model_selection = pytest.importorskip("sklearn.model_selection")
make_pipeline = pytest.importorskip("sklearn.pipeline").make_pipeline
check_estimator = pytest.importorskip("sklearn.utils.estimator_checks").check_estimator
PrivacyFunnel = pytest.importorskip("privfunnel.learning.estimator").PrivacyFunnel

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")

ROWS = pd.DataFrame(people(1500)).drop(columns="id")
QUICK: dict[str, Any] = {"solver": "aem", "solver_options": {"restarts": 1, "max_steps": 30, "throw": False}}
BINS = {"age": "edges:18,40,60,80"}


@pytest.mark.filterwarnings("ignore::privfunnel.errors.GuaranteeWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("options", [{}, {"bins": "quantiles:2", "solver": "greedy", "unseen": "nearest"}])
def test_it_passes_scikit_learns_own_checks(options: dict[str, Any]) -> None:
    funnel = PrivacyFunnel(private=0, **options)
    results = check_estimator(funnel, on_fail=None, on_skip=None)
    failed = [
        (result["check_name"], result["exception"]) for result in results if result["status"] == "failed"
    ]
    assert failed == []
    names = {result["check_name"] for result in results if result["status"] == "passed"}
    assert len(names) > 30
    assert "check_fit_idempotent" in names


def test_named_private_columns_are_left_out() -> None:
    funnel = PrivacyFunnel(["sick", "smoker"], disclosure="50%", bins=BINS, **QUICK).fit(ROWS)
    assert funnel.mechanism_.private_names == ("sick", "smoker")
    assert funnel.mechanism_.public_names == ("age", "town", "member")
    assert funnel.solution_.disclosure >= 0.5 * funnel.solution_.problem.disclosure_ceiling - 1e-9
    out = funnel.transform(ROWS)
    assert out.shape == (1500, 1)
    assert funnel.get_feature_names_out().tolist() == ["released"]
    # Private values are not looked at.
    hidden = ROWS.assign(sick=False, smoker="?")
    assert funnel.transform(hidden).shape == (1500, 1)


def test_leakage_may_be_of_another_measure_or_of_single_columns() -> None:
    asked = {"public": ["town", "member"], "solver_options": {"gap": 1e-2}}
    funnel = PrivacyFunnel(["sick"], disclosure="90%", measure="total-variation", **asked).fit(ROWS)
    found = funnel.solution_
    assert found.leakage == found.problem.evaluate(found.channel, measure="total-variation").leakage
    assert funnel.mechanism_.provenance["measure"]["name"] == "total-variation"
    funnel = PrivacyFunnel(["sick", "smoker"], leakage={"sick": 0.001}, **asked).fit(ROWS)
    assert funnel.solution_.leakages["sick"] <= 0.001 + 1e-9
    assert funnel.mechanism_.provenance["budgets"] == {"sick": 0.001}


def test_draws_follow_the_channel_and_differ_each_time() -> None:
    funnel = PrivacyFunnel("sick", disclosure="60%", bins=BINS, **QUICK).fit(ROWS)
    first, second = funnel.transform(ROWS), funnel.transform(ROWS)
    assert not np.array_equal(first, second)
    frequency = np.bincount(first[:, 0], minlength=funnel.mechanism_.n_y) / 1500
    assert np.abs(frequency - funnel.mechanism_.p_y).max() < 6 * np.sqrt(0.25 / 1500)
    repeatable = base.clone(funnel).set_params(random_state=5).fit(ROWS)
    with pytest.warns(GuaranteeWarning, match="random_state=5"):
        one = repeatable.transform(ROWS)
    with pytest.warns(GuaranteeWarning, match="random_state=5"):
        assert np.array_equal(one, repeatable.transform(ROWS))


@pytest.mark.parametrize("output", ["symbols", "onehot", "records"])
def test_outputs_and_their_names(output: str) -> None:
    funnel = PrivacyFunnel(
        ["sick"], public=["age", "member"], disclosure="50%", bins=BINS, output=output, **QUICK
    )
    out = funnel.set_output(transform="pandas").fit(ROWS).transform(ROWS)
    assert list(out.columns) == list(funnel.get_feature_names_out())
    if output == "onehot":
        assert (out.to_numpy().sum(axis=1) == 1.0).all()
        assert out.columns[0].startswith("released_y")
    if output == "records":
        assert list(out.columns) == ["age", "member"]
        assert set(out["age"]) == {28, 49, 70}
        assert set(out["member"]) == {True, False}
    with pytest.raises(InvalidInputError, match="input_features is not equal"):
        funnel.get_feature_names_out(["a"])


def test_records_of_numbers_stay_numbers() -> None:
    X = np.random.default_rng(0).integers(0, 3, (300, 2))
    funnel = PrivacyFunnel(output="records", **QUICK).fit(X, sensitive_features=X[:, 0])
    out = funnel.transform(X)
    assert out.dtype.kind == "i"
    assert set(np.unique(out)) <= {0, 1, 2}


def test_it_works_in_a_pipeline_and_a_grid() -> None:
    task = ROWS["member"].to_numpy()
    X = ROWS[["age", "town", "sick"]]
    pipeline = make_pipeline(
        PrivacyFunnel("sick", bins=BINS, output="onehot", **QUICK),
        linear_model.LogisticRegression(max_iter=200),
    )
    grid = model_selection.GridSearchCV(
        pipeline, {"privacyfunnel__disclosure": ["20%", "90%"]}, cv=2, error_score="raise"
    )
    grid.fit(X, task)
    assert grid.best_score_ >= 0.5
    assert "released_y" in pipeline.fit(X, task)[0].get_feature_names_out()[0]


def test_the_target_of_a_task_is_never_taken_as_private() -> None:
    """The target is what a pipeline is to predict: hiding it silently would ruin the model."""
    X, task = ROWS[["age", "town", "member"]], ROWS["sick"].to_numpy()
    with pytest.raises(InvalidInputError, match="nothing is named private"):
        make_pipeline(PrivacyFunnel(bins=BINS, **QUICK), linear_model.LogisticRegression()).fit(X, task)
    with pytest.raises(InvalidInputError, match="both name what is private"):
        PrivacyFunnel("member", bins=BINS, **QUICK).fit(X, sensitive_features=task)
    plain = PrivacyFunnel("member", bins=BINS, **QUICK).fit(X)
    with_target = PrivacyFunnel("member", bins=BINS, **QUICK).fit(X, task)
    np.testing.assert_array_equal(plain.mechanism_.channel, with_target.mechanism_.channel)


def test_sensitive_features_are_routed_through_a_pipeline() -> None:
    X, task = ROWS[["age", "town"]], ROWS["member"].to_numpy()
    funnel = PrivacyFunnel(bins=BINS, output="onehot", **QUICK)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(
            funnel.set_fit_request(sensitive_features=True), linear_model.LogisticRegression(max_iter=200)
        )
        pipeline.fit(X, task, sensitive_features=ROWS[["sick", "smoker"]])
    assert pipeline[0].mechanism_.private_names == ("sick", "smoker")
    assert pipeline.predict(X).shape == task.shape
    with pytest.raises(InvalidInputError, match="every column of X is private"):
        PrivacyFunnel(["age", "town"], bins=BINS, **QUICK).fit(X)
    with pytest.raises(InvalidInputError, match=r"sensitive_features has shape \(1500, 1, 1\)"):
        PrivacyFunnel(bins=BINS, **QUICK).fit(X, sensitive_features=np.zeros((1500, 1, 1)))


def test_it_is_part_of_the_package() -> None:
    import privfunnel

    assert privfunnel.PrivacyFunnel is PrivacyFunnel
    assert privfunnel.Mechanism.__name__ == "Mechanism"
    assert {"PrivacyFunnel", "Mechanism"} <= set(dir(privfunnel))


def test_positions_and_arrays() -> None:
    X = ROWS[["age", "member", "sick"]].to_numpy(dtype=object)
    funnel = PrivacyFunnel([-1], leakage="10%", bins={"x0": 3}, **QUICK).fit(X)
    assert funnel.mechanism_.private_names == ("x2",)
    one = PrivacyFunnel(np.int64(2), leakage="10%", bins={"x0": 3}, **QUICK).fit(X)
    assert one.mechanism_.private_names == ("x2",)
    assert funnel.solution_.leakage <= 0.1 * funnel.solution_.problem.leakage_ceiling + 1e-6
    with pytest.raises(InvalidInputError, match="should have length equal"):
        funnel.get_feature_names_out(["a"])


def test_a_column_called_private_and_nan_are_fine() -> None:
    X = pd.DataFrame({"private": [1.0, np.nan, 2.0, 1.0] * 20})
    funnel = PrivacyFunnel(**QUICK).fit(X, sensitive_features=np.array(["a", "b"] * 40))
    assert funnel.mechanism_.private_names == ("private_",)
    assert funnel.mechanism_.public[0].values == (1, 2, None)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"output": "poems"}, "output='poems' is unknown"),
        ({"unseen": "drop"}, "would change the number of rows"),
        ({"disclosure": 0.1, "leakage": 0.1}, "not both"),
        ({"disclosure": "much"}, "disclosure 'much' cannot be read"),
        ({"private": ["nothing"]}, "private column 'nothing' is not in X"),
        ({"private": None}, "nothing is named private"),
        ({"max_levels": "x"}, "max_levels='x' is not a whole number"),
        ({"private": 1.5}, r"private=1\.5 names no columns"),
        ({"measure": "surprise"}, "there is no measure 'surprise'"),
        ({"random_state": -1}, None),
    ],
)
def test_wrong_parameters(options: dict[str, Any], match: str | None) -> None:
    funnel = PrivacyFunnel(**{"private": "sick", "bins": BINS, **QUICK, **options})
    if match is not None:
        with pytest.raises(InvalidInputError, match=match):
            funnel.fit(ROWS)
    else:
        with pytest.warns(GuaranteeWarning), pytest.raises(InvalidInputError, match="seed=-1 is not a seed"):
            funnel.fit(ROWS).transform(ROWS)


def test_mixed_columns_and_new_values_are_refused() -> None:
    mixed = pd.DataFrame({"a": pd.Series(["x", 1, "y", 2] * 5, dtype=object), "b": [0, 1] * 10})
    with pytest.raises(InvalidInputError, match="mixes types"):
        PrivacyFunnel("b", **QUICK).fit(mixed)
    funnel = PrivacyFunnel("sick", disclosure="50%", bins=BINS, **QUICK).fit(ROWS)
    strange = ROWS.head(3).assign(town="mars")
    with pytest.raises(InvalidInputError, match="town='mars' was not seen"):
        funnel.transform(strange)
    assert funnel.set_params(unseen="marginal").transform(strange).shape == (3, 1)

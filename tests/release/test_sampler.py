"""The sampler: draws follow the channel exactly, and what was not seen at design time is told apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funnels import count_people, people, random_mechanism
from privfunnel import release
from privfunnel.data import tables
from privfunnel.data.engines import Alphabet, Column
from privfunnel.errors import GuaranteeWarning, InvalidInputError
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.randomness import secure, seeded
from privfunnel.release.sampler import Alias, Sampler, Tally

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("narwhals")


@pytest.fixture(scope="module")
def mechanism() -> Mechanism:
    return random_mechanism(count_people(pa.table(people())))


@settings(deadline=None, max_examples=25)
@given(
    weights=st.lists(
        st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1.0)), min_size=4, max_size=4).filter(lambda w: sum(w) > 0),
        min_size=1, max_size=5),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_empirical_frequencies_converge_to_the_channel(weights: list[list[float]], seed: int) -> None:
    rows = np.array(weights)
    rows /= rows.sum(axis=1, keepdims=True)
    alias, generator = Alias(rows), seeded(seed)
    for n in (2_000, 200_000):
        x = np.arange(n) % len(rows)
        y = alias.draw(x, generator(n))
        table = np.zeros(rows.shape)
        np.add.at(table, (x, y), 1.0)
        frequency = table / table.sum(axis=1, keepdims=True)
        # Seven standard deviations of each frequency, plus one count.
        slack = 7.0 * np.sqrt(rows * (1 - rows) / (n / len(rows))) + len(rows) / n
        assert (np.abs(frequency - rows) <= slack).all()
        assert (frequency[rows == 0.0] == 0.0).all()


def test_alias_tables_hold_the_probabilities_exactly() -> None:
    rng = np.random.default_rng(3)
    rows = rng.dirichlet(np.full(30, 0.1), 20)
    rows[:, 3] = 0.0
    rows /= rows.sum(axis=1, keepdims=True)
    alias = Alias(rows)
    for i, row in enumerate(rows):
        cells = slice(alias.start[i], alias.start[i] + alias.size[i])
        mass = np.zeros(30)
        np.add.at(mass, alias.own[cells], alias.keep[cells] / alias.size[i])
        np.add.at(mass, alias.other[cells], (1.0 - alias.keep[cells]) / alias.size[i])
        np.testing.assert_allclose(mass, row, atol=1e-14)


def test_rows_are_drawn_from_in_proportion_whatever_they_add_up_to() -> None:
    alias = Alias(np.array([[4.0, 2.0, 0.0, 2.0]]))
    drawn = alias.draw(np.zeros(400, dtype=np.int64), (np.arange(400) + 0.5) / 400)
    assert np.bincount(drawn, minlength=4).tolist() == [200, 100, 0, 100]


def test_secure_numbers_are_uniform_and_never_repeat() -> None:
    first, second = secure(100_000), secure(100_000)
    assert not np.array_equal(first, second)
    assert first.min() >= 0.0
    assert first.max() < 1.0
    assert abs(first.mean() - 0.5) < 7 / np.sqrt(12 * 100_000)
    assert len(np.unique(first)) == 100_000


@pytest.mark.parametrize("limit", [2**22, 3])
def test_recogniser_agrees_with_a_dictionary(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privfunnel.data.engines.alphabet.DENSE", limit)
    monkeypatch.setattr("privfunnel.data.engines.alphabet.DENSE_PER_PREFIX", 1)
    rng = np.random.default_rng(0)
    columns = tuple(Column(f"c{j}", "integer", tuple(range(size))) for j, size in enumerate((3, 50, 2)))
    known = np.unique(np.stack([rng.integers(0, c.n_values, 40) for c in columns], axis=1), axis=0)
    known = known[rng.permutation(len(known))]
    index = {tuple(row): i for i, row in enumerate(known.tolist())}
    asked = np.stack([rng.integers(-3, c.n_values, 5000) for c in columns], axis=1)
    found = Alphabet(columns, known).recogniser()([asked[:, j] for j in range(3)])
    assert found.tolist() == [index.get(tuple(row), -1) for row in asked.tolist()]


# --- values not seen at design time -----------------------------------------------------------------------------

STRANGE: dict[str, list[Any]] = {
    "age": [20, 99, 17, 30, None],
    "town": ["north", "north", "north", "mars", "north"],
    "member": [True, True, False, True, False],
}


@pytest.mark.parametrize(
    ("row", "match"),
    [
        (1, "row 2: age=99 was outside the bins at design time: map it with --unseen"),
        (3, "row 2: town='mars' was not seen"),
        (4, "row 2: age=None was not seen"),
    ],
)
def test_unseen_values_are_an_error_by_default(
    mechanism: Mechanism, tmp_path: Path, row: int, match: str
) -> None:
    table = pa.table(STRANGE).take([0, row])
    with pytest.raises(InvalidInputError, match=match):
        release.write(table, mechanism, tmp_path / "o.csv")
    assert list(tmp_path.iterdir()) == []


def test_unseen_rows_are_dropped_marginal_or_nearest_and_counted(
    mechanism: Mechanism, tmp_path: Path
) -> None:
    table = pa.table({**STRANGE, "id": list("abcde")})
    for rule, written in (("drop", 1), ("marginal", 5), ("nearest", 5)):
        with pytest.warns(GuaranteeWarning) as caught:
            report = release.write(table, mechanism, tmp_path / f"{rule}.parquet", unseen=rule, keep=["id"])
        assert any("4 of 5 rows held values not seen" in str(warning.message) for warning in caught)
        assert report.unseen == {"age": 3, "town": 1}
        assert report.written == written
        assert pq.read_table(tmp_path / f"{rule}.parquet").num_rows == written
    assert pq.read_table(tmp_path / "drop.parquet")["id"].to_pylist() == ["a"]


def test_nearest_takes_the_end_bin_and_the_most_probable_tie(mechanism: Mechanism) -> None:
    sampler = Sampler(mechanism, "nearest")
    batch = pa.table(STRANGE).slice(1, 4)
    codes = sampler.x_alphabet.encode(batch)
    found = [mechanism.x_labels[i] for i in sampler._closest(codes)]
    assert found[0] == "age=60-80, town=north, member=true"
    assert found[1] == "age=18-39, town=north, member=false"
    assert found[2].startswith("age=18-39, ")
    assert found[2].endswith("member=true")
    assert found[3].endswith("town=north, member=false")


def test_marginal_draws_from_p_y(mechanism: Mechanism) -> None:
    n = 100_000
    batch = pa.table({"age": [99] * n, "town": ["mars"] * n, "member": [None] * n})
    tally = Tally()
    y, kept = Sampler(mechanism, "marginal").draw(batch, seeded(0), tally)
    assert kept is None
    assert tally.unseen_rows == n
    assert np.abs(np.bincount(y, minlength=mechanism.n_y) / n - mechanism.p_y).max() < 6 / np.sqrt(4 * n)


def test_a_new_combination_of_known_values_is_told_apart(tmp_path: Path) -> None:
    rows = pa.table({"s": ["a", "b"] * 50, "u": ["x", "y"] * 50, "v": [1, 2] * 50})
    designed = tables.count(rows, private="s", public=["u", "v"])
    mechanism = random_mechanism(designed, n_y=2)
    new = pa.table({"u": ["x"], "v": [2]})
    with pytest.raises(InvalidInputError, match="the combination u=x, v=2 was not seen at design time"):
        release.write(new, mechanism, tmp_path / "o.csv")
    with pytest.warns(GuaranteeWarning, match="1 of 1 rows"):
        assert release.write(new, mechanism, tmp_path / "o.csv", unseen="marginal").unseen == {
            "combination": 1
        }


def test_a_frame_reports_unseen_rows(mechanism: Mechanism) -> None:
    seen: list[int] = []
    out = release.frame(pa.table(STRANGE), mechanism, unseen="drop", on_unseen=seen.append)
    assert out.num_rows == 1
    assert seen == [4]
    assert release.frame(pa.table(people()).slice(0, 0), mechanism).num_rows == 0

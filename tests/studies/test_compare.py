from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import privfunnel as pf
from clocks import AFTERWARDS, ticking
from privfunnel.algorithms.deadline import Deadline, cpu_clock
from privfunnel.certificate import Certificate
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import InvalidInputError
from privfunnel.model.equal_symbols import lump
from privfunnel.neighbours import worst_case
from privfunnel.studies.comparison import Comparison, Neighbour, labels, lineup, run
from privfunnel.studies.comparison.neighbours import METHODS
from privfunnel.studies.comparison.run import _spread, verified_part

QUICK = {
    "aem": pf.AEM(restarts=3, max_steps=100),
    "drs-published": pf.DRS(restarts=2, betas=(1.5, 3.0, 8.0)),
    "dca-repaired": pf.RepairedDCA(restarts=2, betas=(1.5, 3.0, 8.0)),
    "greedy": "greedy",
    "submodular": "submodular",
    "deterministic": "deterministic",
    "slsqp": pf.SLSQP(restarts=2),
    "control-maps": pf.RandomMaps(restarts=100),
    "control-starts": pf.RandomStarts(restarts=5),
}


@pytest.fixture(scope="module")
def uniform() -> pf.Problem:
    return pf.instances.load("synthetic-uniform")


@pytest.fixture(scope="module")
def result(uniform) -> Comparison:
    return pf.compare(uniform, solvers=QUICK, points=11, time_limit=20.0, jobs=1)


@pytest.fixture(scope="module")
def proofs(uniform) -> tuple[Certificate, ...]:
    return pf.trace(uniform, points=11, solver="global").certificates


def test_every_method_is_on_or_above_the_certified_curve(result, proofs):
    assert {"auto", *QUICK} == {entry.label for entry in result.entries}
    for entry in result.entries:
        assert np.isfinite(entry.shared).all()
        assert (entry.shared >= result.lower_bound - 1e-12).all()
        assert (entry.leakage >= entry.shared - 1e-12).all()
        for disclosure, leakage in entry.points:
            assert all(leakage >= line.lower_bound(disclosure) - 1e-12 for line in proofs)
    assert (result["auto"].leakage - result.lower_bound).max() <= 1e-6 + 1e-12


@pytest.fixture(scope="module")
def neighbours(uniform) -> Comparison:
    return pf.compare(uniform, solvers=[*METHODS, "perfect"], points=5, time_limit=20.0, jobs=1)


def test_methods_for_other_problems_are_judged_by_what_their_channels_leak(neighbours, uniform):
    """Own answers are channels of the method, so that nothing is mixed into the bottleneck's, which leak most."""
    ceiling = uniform.leakage_ceiling
    for label in METHODS:
        entry = neighbours[label]
        assert entry.name == "neighbour"
        assert (entry.shared >= neighbours.lower_bound - 1e-12).all()
        assert (entry.leakage >= entry.shared - 1e-12).all()
        assert (np.diff(entry.leakage) >= 0.0).all()
        assert entry.leakage[-1] <= ceiling + 1e-12
    most = neighbours["bottleneck-abp"].leakage
    assert neighbours["bottleneck-blahut-arimoto"].leakage == pytest.approx(most, abs=1e-7)
    assert all((neighbours[label].shared <= most + 1e-9).all() for label in METHODS)
    # The chord from nothing to X itself is all that time sharing can make of channels that leak most.
    chord = ceiling * neighbours.disclosure / uniform.disclosure_ceiling
    assert neighbours["bottleneck-agglomerative"].shared == pytest.approx(chord, abs=1e-12)
    assert (neighbours["bottleneck-agglomerative"].leakage > chord).all()
    # Vertices disclose most within a bound on the lifts: no merging discloses more, nor leaks less for as much.
    for merging in ("watchdog", "subset-merging", "max-lift"):
        assert (neighbours["lip-vertex"].shared <= neighbours[f"lip-{merging}"].shared + 1e-9).all()
    assert np.isnan(neighbours["perfect"].leakage).all()
    assert "R0 = 0 nats" in neighbours["perfect"].message


def test_own_answers_of_another_problem_are_members_that_disclose_enough(uniform):
    points = [pf.Point(0.3, 0.2), pf.Point(0.5, 0.1), pf.Point(0.7, 0.4)]
    assert [Neighbour.own(uniform, points, r) for r in (0.2, 0.5, 0.6)] == [0.1, 0.1, 0.4]
    assert Neighbour.own(uniform, points, 0.8) == uniform.leakage_ceiling


def test_other_problems_get_the_symbols_and_stop_in_time(many_symbols, monkeypatch):
    """Classes of symbols would change what is guessed or merged: 90 symbols are more than a bound of 60 allows."""
    monkeypatch.setattr(worst_case, "MOST_SYMBOLS", 60)
    result = pf.compare(many_symbols, solvers=["lip-watchdog"], disclosures=[3.5], jobs=1)
    assert "90 public symbols" in result["lip-watchdog"].message
    assert not result["lip-watchdog"].answered
    monkeypatch.undo()
    result = pf.compare(many_symbols, solvers=["lip-max-lift"], disclosures=[3.5], time_limit=1e-6, jobs=1)
    assert "cut by the time limit" in result["lip-max-lift"].message
    assert len(result["lip-max-lift"].points) <= 3
    with pytest.raises(InvalidInputError, match="method='guess' is not known"):
        Neighbour(method="guess")


def test_a_method_below_a_proved_line_would_be_noticed(result, proofs):
    """The lines are worth comparing with: where they are highest, half of the least leakage is below one of them."""
    for disclosure, leakage in zip(result.disclosure, result.best, strict=True):
        assert max(line.lower_bound(disclosure) for line in proofs) > 0.5 * leakage


def test_known_values_of_greedy_and_the_optimum(result):
    """At 0.4 and 0.8 H(X): greedy 0.1618 and 0.4541, the optimum 0.0806 and 0.3138."""
    assert result["greedy"].leakage[[3, 7]] == pytest.approx([0.1618, 0.4541], abs=5e-5)
    assert result.lower_bound[[3, 7]] == pytest.approx([0.0806, 0.3138], abs=5e-5)


def test_summary_and_rows(result):
    summary = {row["solver"]: row for row in result.summary()}
    assert summary["auto"]["share_best"] == 1.0
    assert summary["greedy"]["share_best"] == 0.0
    assert summary["greedy"]["mean_excess"] > summary["greedy"]["mean_excess_shared"] > 0.0
    assert summary["greedy"]["converged"] is None
    assert 0.0 <= summary["drs-published"]["converged"] <= 1.0
    assert summary["drs-published"]["runs"] == 2 * 2 * 3 * 2
    assert summary["control-maps"]["runs"] == 100
    rows = result.rows()
    assert len(rows) == 9 * len(result.entries)
    one = next(
        row for row in rows if row["solver"] == "greedy" and row["disclosure_share"] == pytest.approx(0.4)
    )
    assert one["excess"] == pytest.approx(0.1618 - 0.0806, abs=1e-4)
    assert one["relative_excess"] == pytest.approx(0.1618 / 0.0806 - 1.0, abs=2e-3)
    assert not one["best"]
    frame = pytest.importorskip("pandas") and result.to_frame()
    assert len(frame) == len(rows)


def test_files_are_read_back(result, tmp_path):
    result.save(tmp_path / "comparison.json")
    result.save(tmp_path / "comparison.csv")
    again = Comparison.load(tmp_path / "comparison.json")
    assert again.summary() == result.summary()
    assert again.rows() == result.rows()
    assert (tmp_path / "comparison.csv").read_text().startswith("solver,disclosure,")
    with pytest.raises(InvalidInputError, match=r"\.json or \.csv"):
        result.save(tmp_path / "comparison.txt")
    with pytest.raises(InvalidInputError, match="cannot write"):
        result.save(tmp_path / "missing" / "comparison.csv")
    broken = result.to_dict()
    del broken["entries"]
    with pytest.raises(InvalidInputError, match="entries"):
        Comparison.from_dict(broken)


def test_figure_has_every_curve_and_the_band(result):
    pytest.importorskip("matplotlib", reason="figures need the plots extra")
    figure = result.plot(units="bits", title="synthetic")
    plane, excess = figure.axes
    labels = set(plane.get_legend_handles_labels()[1])
    assert {entry.label for entry in result.entries} <= labels
    assert {"certified band", "proved lower bound", "closed-form bounds"} <= labels
    assert "bits" in plane.get_xlabel()
    assert excess.get_yscale() == "log"
    with pytest.raises(InvalidInputError, match="units"):
        result.plot(units="dits")


def test_the_lineup_labels_variants_apart():
    assert set(lineup(["drs"])) == {"drs-published", "drs-repaired"}
    assert set(lineup("dca")) == {"dca-published", "dca-sparse", "dca-repaired"}
    assert set(lineup()) == set(labels())
    named = {name for name, _ in labels().values()}
    assert named == {*pf.algorithms.registry.names(), "neighbour"} - {"global", "binary"}
    assert lineup(["lip-vertex"])["lip-vertex"] == Neighbour(method="lip-vertex")
    assert set(lineup(["global", pf.RepairedDRS(), pf.Greedy()])) == {
        "global",
        "drs-repaired",
        "greedy",
    }
    assert lineup({"mine": "greedy"})["mine"].name == "greedy"
    assert lineup(["drs-repaired"])["drs-repaired"].variant == "repaired"
    with pytest.raises(InvalidInputError, match="did you mean 'greedy'"):
        lineup(["gredy"])
    with pytest.raises(InvalidInputError, match="two solvers"):
        lineup(["greedy", "greedy"])
    with pytest.raises(InvalidInputError, match="no solver"):
        lineup([])


def test_solvers_that_cannot_are_told_and_not_hidden():
    problem = pf.instances.load("heart-failure")
    result = pf.compare(
        problem, solvers=["deterministic", "greedy"], disclosures=[1.0, 2.0], time_limit=5.0, jobs=1
    )
    assert not result["deterministic"].answered
    assert "too many partitions" in result["deterministic"].message
    assert np.isnan(result["deterministic"].leakage).all()
    row = next(row for row in result.summary() if row["solver"] == "deterministic")
    assert row["mean_excess"] is None
    assert row["answered"] == 0
    assert result.plot() is not None
    again = Comparison.from_dict(result.to_dict())
    assert not again["deterministic"].answered
    with pytest.raises(InvalidInputError, match="no solver 'aem' took part"):
        result["aem"]


def test_a_missing_extra_is_an_entry_with_a_message(uniform, monkeypatch):
    from privfunnel.algorithms.nlp import ipopt
    from privfunnel.errors import MissingExtraError

    def missing(module: str, extra: str) -> None:
        raise MissingExtraError(f"pip install 'privfunnel[{extra}]'")

    monkeypatch.setattr(ipopt, "need", missing)
    result = pf.compare(uniform, solvers=["ipopt"], disclosures=[0.5], time_limit=5.0, jobs=1)
    assert "privfunnel[ipopt]" in result["ipopt"].message


class Breaks(pf.Greedy):
    """Fails at the second disclosure it is given, as a numerical library may."""

    name = "breaks"

    def solve(self, problem, disclosure, **options):
        if disclosure > 0.4:
            raise np.linalg.LinAlgError("SVD did not\nconverge")
        return super().solve(problem, disclosure, **options)


class BreaksAtOnce(pf.Greedy):
    """Fails while its kernels are loaded."""

    name = "breaks-at-once"

    def warm_up(self):
        raise np.linalg.LinAlgError("singular matrix")


class Nonsense(pf.Greedy):
    """Returns something that is no channel."""

    name = "nonsense"

    def solve(self, problem, disclosure, **options):
        return Answer(channel=np.full((2, 2), 3.0), status=Status.CONVERGED)


def test_a_solver_that_breaks_does_not_take_the_others_with_it(uniform):
    result = pf.compare(
        uniform,
        solvers={"late": Breaks(), "early": BreaksAtOnce(), "wrong": Nonsense(), "greedy": "greedy"},
        disclosures=[0.3, 0.6],
        time_limit=5.0,
        jobs=1,
    )
    assert result["late"].message == "failed with LinAlgError: SVD did not converge"
    assert np.isnan(result["late"].leakage[1])
    assert "LinAlgError: singular matrix" in result["early"].message
    for label in ("early", "wrong"):
        assert not result[label].answered
        assert result[label].message
        assert np.isnan(result[label].leakage).all()
    assert np.isfinite(result["greedy"].leakage).all()
    assert result["greedy"].message == ""
    rows = {row["solver"]: row for row in result.summary()}
    assert rows["early"]["answered"] == 0
    assert "singular matrix" in rows["early"]["message"]


def test_an_interrupt_is_not_a_failure(uniform, monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(pf.Greedy, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pf.compare(uniform, solvers=["greedy"], disclosures=[0.3], time_limit=5.0, jobs=1)


def test_a_wrong_reference_is_refused_before_the_work(uniform, monkeypatch):
    def worked(*_args):
        raise AssertionError("the solvers ran")

    monkeypatch.setattr(run, "_work", worked)
    curve = pf.trace(pf.instances.load("synthetic-skewed"), disclosures=[0.3], solver="greedy")
    for reference, message in ((curve, "another problem"), ("curve.json", "not a curve")):
        with pytest.raises(InvalidInputError, match=message):
            pf.compare(uniform, solvers=["greedy"], disclosures=[0.3], jobs=1, reference=reference)


@pytest.mark.parametrize(
    ("label", "solver", "looks"), [("slsqp", pf.SLSQP(), 100), ("dca-published", pf.DCA(), 1000)]
)
def test_the_time_limit_is_honoured(label, solver, looks, monkeypatch):
    problem = pf.instances.load("heart-failure")
    ticking(
        monkeypatch, 60.0, looks, looks + AFTERWARDS
    )  # perfect privacy is computed beside, with a limit as long
    result = pf.compare(problem, solvers=[solver], disclosures=[0.5, 1.0, 1.5, 2.0], time_limit=60.0, jobs=1)
    assert "time limit" in result[label].message


def test_a_reference_curve_proves_a_bound_too(uniform):
    curve = pf.trace(uniform, disclosures=[0.3, 0.6], solver="auto")
    result = pf.compare(
        uniform, solvers=["greedy"], disclosures=[0.3, 0.6], time_limit=5.0, jobs=1, reference=curve
    )
    assert (result.lower_bound >= curve.lower_bound - 1e-12).all()
    other = pf.instances.load("synthetic-skewed")
    with pytest.raises(InvalidInputError, match="another problem"):
        pf.compare(other, solvers=["greedy"], disclosures=[0.3], time_limit=5.0, jobs=1, reference=curve)


def test_the_grid_is_visited_coarse_to_fine():
    for n in (1, 2, 5, 9, 20):
        assert sorted(_spread(n)) == list(range(n))
    assert _spread(9)[0] == 2


def test_deadlines_can_be_cpu_time(monkeypatch):
    now = SimpleNamespace(monotonic=lambda: 100.0, thread_time=lambda: 1.0)
    monkeypatch.setattr("privfunnel.algorithms.deadline.time", now)
    with cpu_clock():
        deadline = Deadline(10.0)
        now.monotonic, now.thread_time = (lambda: 1000.0), (lambda: 3.0)
        assert deadline.elapsed() == 2.0
        assert deadline.clock == "cpu"
    assert Deadline().clock == "wall"
    assert Deadline().left() == np.inf


@pytest.mark.parametrize(
    "options",
    [
        {"points": 2}, {"points": True}, {"disclosures": [0.0]}, {"time_limit": 0.0}, {"time_limit": True},
        {"seed": -1}, {"solvers": ["nobody"]},
    ],
)  # fmt: skip
def test_arguments_are_checked(uniform, options):
    with pytest.raises(InvalidInputError):
        pf.compare(uniform, **options)


def test_processes_and_progress(uniform):
    news = []
    result = pf.compare(
        uniform,
        solvers=["greedy", "control-maps"],
        disclosures=[0.5],
        time_limit=10.0,
        jobs=2,
        progress=news.append,
    )
    assert news[-1].done == news[-1].total == 3
    assert os.getpid() not in {entry.process for entry in result.entries}
    alone = pf.compare(
        uniform, solvers=["greedy", "control-maps"], disclosures=[0.5], time_limit=10.0, jobs=1
    )
    for label in ("greedy", "control-maps", "auto"):
        np.testing.assert_array_equal(result[label].leakage, alone[label].leakage)


def test_options_without_a_limit_can_be_stored(uniform, tmp_path):
    result = pf.compare(
        uniform, solvers=[pf.RandomMaps(restarts=10)], disclosures=[0.5], time_limit=5.0, jobs=1
    )
    assert result["control-maps"].options["time_limit"] is None
    result.save(tmp_path / "comparison.json")


@pytest.mark.slow
def test_a_dask_cluster_runs_it_unchanged(uniform):
    """A real local cluster of processes: the same call under joblib.parallel_config(backend="dask")."""
    distributed = pytest.importorskip("distributed", reason="the cluster extra is not installed")
    joblib = pytest.importorskip("joblib")
    import dask

    with (
        dask.config.set({"distributed.worker.daemon": True}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        workers = set(client.run(os.getpid).values())
        with joblib.parallel_config(backend="dask", wait_for_workers_timeout=300):
            remote = pf.compare(
                uniform, solvers=["greedy", "submodular"], disclosures=[0.3, 0.6], time_limit=20.0
            )
    assert {entry.process for entry in remote.entries} <= workers
    local = pf.compare(
        uniform, solvers=["greedy", "submodular"], disclosures=[0.3, 0.6], time_limit=20.0, jobs=1
    )
    for label in ("greedy", "submodular", "auto"):
        np.testing.assert_array_equal(remote[label].leakage, local[label].leakage)


@pytest.mark.slow
def test_the_script_of_the_page_on_clusters_runs_as_a_script(tmp_path):
    """With few solvers, since the page compares all: its workers are processes that import the script."""
    pytest.importorskip("distributed", reason="the cluster extra is not installed")
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text("utf-8")
    script = page.split("```python\n")[1].split("```")[0]
    brief = script.replace("(problem, ", '(problem, solvers=["greedy"], disclosures=[0.5], ')
    assert brief != script
    (tmp_path / "script.py").write_text(brief)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "greedy" in done.stdout


def test_a_file_that_claims_a_bound_proves_nothing(uniform, tmp_path):
    """A curve read from a file keeps its bounds as written; without certificates they do not count in a comparison."""
    curve = pf.trace(uniform, disclosures=[0.3, 0.6])
    curve.save(tmp_path / "curve.json")
    read = pf.Curve.load(tmp_path / "curve.json")
    assert read.lower_bound == pytest.approx(curve.lower_bound)
    assert len(verified_part(curve).solutions) == 2
    assert verified_part(read).solutions == ()
    assert (verified_part(read).proved([0.3, 0.6]) < curve.lower_bound - 1e-3).all()


@pytest.fixture(scope="module")
def many_symbols() -> pf.Problem:
    """90 public symbols in 5 classes: multiples of 5 columns of coprime counts."""
    columns = np.array([[3, 1, 2, 5, 1], [1, 4, 2, 1, 6], [2, 2, 3, 1, 1]])
    return pf.Problem(np.concatenate([columns * times for times in range(1, 19)], axis=1))


def test_many_symbols_in_few_classes_are_compared_as_classes(many_symbols):
    entrants = {
        "greedy": "greedy",
        "slsqp": pf.SLSQP(restarts=1),
        "aem": pf.AEM(restarts=3),
        "dca": QUICK["dca-repaired"],
    }
    result = pf.compare(many_symbols, solvers=entrants, points=7, time_limit=20.0, jobs=1)
    lumping = lump(many_symbols)
    assert (lumping.n_classes, many_symbols.n_x) == (5, 90)
    assert 0.0 < (result.disclosure > lumping.h_within).mean() < 1.0
    free = result.disclosure <= lumping.h_within
    classes = pf.compare(
        lumping.lumped, solvers=entrants, disclosures=result.disclosure[~free] - lumping.h_within,
        time_limit=20.0, jobs=1,
    )  # fmt: skip
    for entry in result.entries:
        assert np.isfinite(entry.shared).all()
        assert (entry.shared >= result.lower_bound - 1e-12).all()
        assert (entry.shared[free] < 1e-12).all()
        np.testing.assert_allclose(entry.shared[~free], classes[entry.label].shared, atol=1e-9)
        np.testing.assert_allclose(entry.leakage[~free], classes[entry.label].leakage, atol=1e-9)
        assert all(
            0.0 <= point.disclosure <= many_symbols.disclosure_ceiling + 1e-9 for point in entry.points
        )
    np.testing.assert_allclose(result["auto"].shared, result.lower_bound, atol=2e-6)
    assert Comparison.from_dict(result.to_dict()).to_dict() == result.to_dict()


def test_disclosures_that_members_alone_give_need_no_solver(many_symbols):
    within = lump(many_symbols).h_within
    result = pf.compare(many_symbols, solvers=["greedy"], disclosures=[0.3 * within, 0.9 * within], jobs=1)
    for entry in result.entries:
        assert (entry.leakage < 1e-12).all()
        assert (entry.shared < 1e-12).all()

"""What the explorer lets a person download, and the script and commands that make the same again."""

from __future__ import annotations

import ast
import csv
import json
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("duckdb", reason="the explorer reads tables through DuckDB")

import helpers_cli
from helpers_explorer import AWKWARD, heart
from privfunnel.app.explorer import examples
from privfunnel.app.explorer import jobs as tasks
from privfunnel.app.explorer.workspace import Workspace
from privfunnel.certificate import load_bundle
from privfunnel.errors import InvalidInputError
from privfunnel.release.mechanism import Mechanism

# --- exports --------------------------------------------------------------------------------------------------------


def test_every_download_is_made(traced: Workspace) -> None:
    found = tasks.point(traced, disclosure=2.0)
    names = [d["name"] for d in found["downloads"]]
    assert names == ["release.csv", "release.parquet", "symbols.csv", "decoys.csv", "decoys.parquet", "codebook.json",
                     "report.html", "mechanism.json", "certificates.npz", "release.py"]  # fmt: skip
    assert [d["group"] for d in found["downloads"]] == ["publish"] * 7 + ["keep confidential"] * 3
    paths = {name: Path(tasks.export(traced, name, 2.0)) for name in names}
    assert paths["release.csv"].read_text().splitlines()[0] == "anaemia,high blood pressure,diabetes,smoking"
    assert len(paths["release.csv"].read_text().splitlines()) == 300
    symbols = paths["symbols.csv"].read_text().splitlines()
    mechanism = Mechanism.load(paths["mechanism.json"])
    assert set(symbols[1:]) <= set(mechanism.y_labels)
    assert mechanism.leakage == found["leakage"]
    assert json.loads(paths["codebook.json"].read_text())["schema"] == "privfunnel/codebook"
    report = paths["report.html"].read_text()
    assert mechanism.provenance["problem"] not in report  # whoever guesses the table could check the guess
    assert "<h2>Audit</h2>" in report
    assert f"{found['disclosure'] / math.log(2)!r}"[:8] not in report  # nor any amount with all its digits
    assert "the promise holds" in report
    for certificate in load_bundle(paths["certificates.npz"]):
        certificate.verify(traced.setting().problem)
    with pytest.raises(InvalidInputError, match="no export"):
        tasks.export(traced, "../../secret", 2.0)


def test_curves_without_certificates_offer_none(workspace: Workspace) -> None:
    heart(workspace)
    tasks.trace(workspace, points=3, solver="greedy")
    assert "certificates.npz" not in [d["name"] for d in tasks.point(workspace, disclosure=2.0)["downloads"]]
    with pytest.raises(InvalidInputError, match="no certificates"):
        tasks.export(workspace, "certificates.npz", 2.0)


def test_a_table_is_drawn_once_for_a_point(traced: Workspace) -> None:
    first = Path(tasks.export(traced, "release.csv", 2.1)).read_bytes()
    assert Path(tasks.export(traced, "release.csv", 2.1)).read_bytes() == first
    assert Path(tasks.export(traced, "release.csv", 2.2)).read_bytes() != first


def test_the_formats_of_a_table_are_one_draw(traced: Workspace) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="reads the release")
    # Asked for in turn, as a person clicks; each may not draw again.
    names = ("symbols.csv", "release.csv", "release.parquet", "decoys.csv")
    paths = {name: Path(tasks.export(traced, name, 1.5)) for name in names}
    symbols = paths["symbols.csv"].read_text().splitlines()[1:]
    header, *records = paths["release.csv"].read_text().splitlines()
    table = parquet.read_table(paths["release.parquet"])
    assert table.column_names == header.split(",")
    assert [",".join(str(v) for v in row.values()) for row in table.to_pylist()] == records
    assert len(symbols) == len(records) == 299
    mechanism = Mechanism.load(Path(tasks.export(traced, "mechanism.json", 1.5)))
    x_of = {
        ",".join(str(c.values[code]) for c, code in zip(mechanism.public, codes, strict=True)): i
        for i, codes in enumerate(mechanism.x_codes.tolist())
    }
    x = [x_of[record] for record in records]
    y = [mechanism.y_labels.index(symbol) for symbol in symbols]
    assert (mechanism.p_x_given_y[x, y] > 0.0).all()
    # Independent draws could not pass: pairs that never occur together would make up much of them.
    independent = np.outer(mechanism.p_x, mechanism.p_y)[mechanism.p_x_given_y == 0.0].sum()
    assert independent > 0.2
    # The record of a row is one of its candidates.
    candidates: dict[int, list[str]] = {}
    for row, *values, _ in csv.reader(paths["decoys.csv"].read_text().splitlines()[1:]):
        candidates.setdefault(int(row) - 1, []).append(",".join(values))
    assert all(record in candidates[i] for i, record in enumerate(records))


def test_the_file_that_is_downloaded_is_audited_in_each_form(
    traced: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {"bootstrap": 2, "permutations": 2, "attacker_rows": 0}
    monkeypatch.setattr("privfunnel.app.explorer.release_files.EFFORT", quick)
    before = Path(tasks.export(traced, "decoys.csv", 2.0)).read_bytes()
    for form in ("symbols", "decoys"):
        assert f"--as {form}" in tasks.point(traced, disclosure=2.0, form=form)["command"]
        found = tasks.audit(traced, 2.0, form)
        assert (found["passed"], found["rows"]) == (True, 299)
        assert any("released rows agree with the mechanism" in said for said in found["words"])
        assert "--view" not in " ".join(found["words"])
    path = Path(tasks.export(traced, "decoys.csv", 2.0))
    assert path.read_bytes() == before  # an audit draws nothing anew
    # What was changed after the draw is found out.
    header, first, *others = path.read_text().splitlines()
    path.write_text("\n".join((header, f"{first.rpartition(',')[0]},0", *others, "")))
    with pytest.raises(InvalidInputError, match="none that the mechanism releases together"):
        tasks.audit(traced, 2.0, "decoys")
    path.write_bytes(before)
    with pytest.raises(InvalidInputError, match="cannot be released as 'prose'"):
        tasks.audit(traced, 2.0, "prose")


def test_decoys_are_offered_only_where_somebody_can_read_them(
    traced: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tasks.point(traced, disclosure=1.0, form="decoys")["form"] == "decoys"
    monkeypatch.setattr("privfunnel.release.candidates.MOST_CANDIDATES", 1)
    found = tasks.point(traced, disclosure=1.0, form="decoys")
    assert (found["forms"], found["form"]) == (["records", "symbols"], "records")
    assert "decoys.csv" not in [d["name"] for d in found["downloads"]]
    assert Path(tasks.export(traced, "release.csv", 1.0)).exists()
    with pytest.raises(InvalidInputError, match="too many for decoys"):
        tasks.export(traced, "decoys.csv", 1.0)


def test_equal_channels_on_other_columns_are_other_releases(workspace: Workspace) -> None:
    tasks.example(workspace, "heart-failure")
    for public in ("anaemia", "diabetes"):
        tasks.roles(workspace, private=["sex"], public=[public], bins={})
        tasks.trace(workspace, points=3, solver="greedy")
        everything = workspace.setting().problem.disclosure_ceiling
        header = Path(tasks.export(workspace, "release.csv", everything)).read_text().splitlines()[0]
        assert header == public


def test_private_columns_are_never_written(traced: Workspace) -> None:
    for name in ("release.csv", "symbols.csv", "decoys.csv"):
        text = Path(tasks.export(traced, name, 2.0)).read_text()
        assert "sex" not in text.splitlines()[0]
        assert "woman" not in text


def run(command: list[str], folder: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "PYTHONWARNINGS": "ignore",
    }
    environment.pop("COVERAGE_PROCESS_CONFIG", None)  # what it runs of the package is traced elsewhere
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_script_makes_the_same_again(traced: Workspace, tmp_path: Path) -> None:
    found = tasks.point(traced, disclosure=2.0)
    examples.write("heart-failure", tmp_path)
    (tmp_path / "release.py").write_text(found["script"])
    ast.parse(found["script"])
    run([sys.executable, "release.py"], tmp_path)
    made = Mechanism.load(tmp_path / "mechanism.json")
    assert made.disclosure == pytest.approx(found["disclosure"], abs=1e-9)
    assert made.leakage == pytest.approx(found["leakage"], abs=1e-6)
    assert len((tmp_path / "heart-failure.released.csv").read_text().splitlines()) == 300
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    "name",
    ['x"""\nimport os; os.abort()\n"""y.csv', "it's\\\n'.csv", '{0}\r#".csv', "-rf.csv", "\u2028.csv"],
)
def test_names_of_files_are_only_ever_literals(workspace: Workspace, name: str) -> None:
    tasks.inspect(workspace, str(AWKWARD), name)
    tasks.roles(
        workspace, private=["naïve Größe"], public=["score"], bins={"score": {"rule": "bins", "number": 2}}
    )
    tasks.trace(workspace, points=3, solver="greedy")
    found = tasks.point(workspace, disclosure=0.3)
    tree = ast.parse(found["script"])
    compile(tree, "release.py", "exec")
    docstring, *imports, table, function, call = tree.body
    assert isinstance(docstring, ast.Expr)
    assert ast.get_docstring(tree) == "Release the table at the point chosen in the explorer."
    assert [ast.unparse(line) for line in imports] == [
        "import privfunnel as pf",
        "from privfunnel.release.mechanism import Mechanism",
        "from privfunnel.report import Report",
    ]
    assert isinstance(table, ast.Assign)
    assert ast.literal_eval(table.value) == name
    assert isinstance(function, ast.FunctionDef)
    assert len(function.body) == 9
    assert isinstance(call, ast.If)
    words = shlex.split(found["command"])
    assert (f"./{name}" if name.startswith("-") else name) in words
    assert words.count("privfunnel") == 2


def test_the_commands_make_the_same_again(
    traced: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tasks.point(traced, disclosure=2.0)
    examples.write("heart-failure", tmp_path)
    commands = found["command"].replace("\\\n", "").splitlines()
    assert [c.split()[1] for c in commands] == ["solve", "release"]
    monkeypatch.chdir(tmp_path)
    for command in commands:
        done = helpers_cli.run(*shlex.split(command)[1:])
        assert done.exit_code == 0, done.output
    made = Mechanism.load(tmp_path / "design" / "mechanism.json")
    assert made.disclosure >= found["disclosure"] - 1e-9
    assert found["lower_bound"] - 1e-6 <= made.leakage <= found["leakage"] + 1e-6
    assert len((tmp_path / "heart-failure.released.csv").read_text().splitlines()) == 300


def test_names_the_command_line_cannot_say_start_from_the_mechanism(
    workspace: Workspace, tmp_path: Path
) -> None:
    tasks.inspect(workspace, str(AWKWARD), "awkward.csv")
    tasks.roles(workspace, private=["naïve Größe"], public=["town, region"], bins={})
    tasks.trace(workspace, points=3, solver="greedy")
    found = tasks.point(workspace, disclosure=0.5)
    assert found["command"].startswith("# with mechanism.json")
    place = tmp_path / "again"
    place.mkdir()
    (place / "awkward.csv").write_bytes(AWKWARD.read_bytes())
    (place / "mechanism.json").write_bytes(Path(tasks.export(workspace, "mechanism.json", 0.5)).read_bytes())
    command = found["command"].partition("\n")[2].replace("\\\n", "")
    run([sys.executable, "-m", *shlex.split(command)], place)
    assert len((place / "awkward.released.csv").read_text("utf-8").splitlines()) == 401


def test_the_report_states_what_the_chosen_form_keeps(traced: Workspace) -> None:
    problem = traced.setting().problem
    mechanism = Mechanism.load(tasks.export(traced, "mechanism.json", 2.0))
    channel = np.asarray(mechanism.channel)
    # A record is drawn for each symbol, as likely as its public values are behind it.
    written = channel @ (problem.p_x[:, None] * channel / mechanism.p_y).T
    records = problem.evaluate(written).disclosure / problem.disclosure_ceiling
    symbols = mechanism.disclosure / problem.disclosure_ceiling
    assert symbols - records > 0.05
    made = set()
    for form, kept in (("records", records), ("decoys", symbols), ("symbols", symbols)):
        made.add(path := tasks.export(traced, "report.html", 2.0, form))
        report = Path(path).read_text()
        (told,) = re.findall(
            r"This release keeps (\d+) % .*Of the public columns together (\d+) % is kept", report
        )
        (step,) = re.findall(r"shares in steps of (\S+) %", report)
        assert [float(share) for share in told] == pytest.approx(
            [100.0 * kept] * 2, abs=float(step) / 2.0 + 1e-6
        )
    assert len(made) == 3  # none is fetched in place of another

"""Released files as spreadsheets open them where commas are decimal signs, and their way back into an audit."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from funnels import random_mechanism
from helpers_cli import run
from privfunnel import audit, release
from privfunnel.data import tables
from privfunnel.data.engines import ReadOptions
from privfunnel.errors import InvalidInputError
from privfunnel.release.mechanism import Mechanism

pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")
pytest.importorskip("sklearn")

QUICK: dict[str, Any] = {"bootstrap": 20, "permutations": 9, "attacker_rows": 0}
pytestmark = [
    pytest.mark.filterwarnings("ignore::privfunnel.errors.GuaranteeWarning"),
    pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning"),
]


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mechanism]:
    """A file as a German office writes it: semicolons, decimal commas, and texts that hold either sign."""
    rng = np.random.default_rng(0)
    size, ward = (
        rng.choice([-1.5, 2.25, 10.0], 2000),
        rng.choice(["Haus 1, oben", "Haus 2; unten", '"C"'], 2000),
    )
    ill = np.where(rng.random(2000) < np.where(size > 2.0, 0.6, 0.2), "ja", "nein")
    lines = [
        ";".join([str(x).replace(".", ","), '"' + w.replace('"', '""') + '"', i])
        for x, w, i in zip(size, ward, ill, strict=True)
    ]
    path = tmp_path_factory.mktemp("office") / "patients.csv"
    path.write_text("\n".join(["size;ward;ill", *lines]) + "\n", "utf-8-sig")
    counts = tables.count(path, private="ill", public=["size", "ward"], read=ReadOptions(decimal=","))
    return path, random_mechanism(counts, n_y=4)


@pytest.mark.parametrize(
    ("form", "dialect"), [("records", "source"), ("symbols", "semicolon"), ("decoys", "semicolon")]
)
def test_a_release_with_semicolons_is_read_back_by_the_audit(
    patients: tuple[Path, Mechanism], tmp_path: Path, form: str, dialect: str
) -> None:
    path, mechanism = patients
    out = tmp_path / "release.csv"
    release.write(path, mechanism, out, form=form, seed=1, dialect=dialect)
    written = out.read_bytes()
    assert written.startswith(codecs.BOM_UTF8)
    head, first = written.decode("utf-8-sig").splitlines()[:2]
    assert form == "symbols" or ";" in head
    assert form != "records" or any(sign in first for sign in ("2,25", "-1,5", "10"))
    found = audit.release(path, out, mechanism=mechanism, **QUICK)
    assert found.rows == 2000
    assert found.draws is not None
    assert found.draws.agrees


def test_the_default_stays_plain_and_holds_the_same_rows(
    patients: tuple[Path, Mechanism], tmp_path: Path
) -> None:
    path, mechanism = patients
    plain, office = tmp_path / "plain.csv", tmp_path / "office.csv"
    for out, options in ((plain, {}), (office, {"dialect": "semicolon"})):
        release.write(path, mechanism, out, seed=1, **options)
    assert plain.read_bytes().startswith(b"size,ward\n")
    counts = [
        tables.count(out, private="size", public="ward", read=ReadOptions(decimal=sign, header=True))
        for out, sign in ((plain, "."), (office, ","))
    ]
    assert counts[0].fingerprint == counts[1].fingerprint


def test_the_source_of_a_plain_file_is_plain(tmp_path: Path) -> None:
    path, out = tmp_path / "table.csv", tmp_path / "release.csv"
    path.write_text("a,s\n" + "1.5,x\n2.5,y\n" * 50, "utf-8")
    mechanism = random_mechanism(tables.count(path, private="s", public="a"), n_y=2)
    release.write(path, mechanism, out, seed=1, dialect="source")
    assert out.read_bytes().startswith(b"a\n")
    with pytest.raises(
        InvalidInputError, match="dialect='excel' is unknown: use one of plain, semicolon, source"
    ):
        release.write(path, mechanism, tmp_path / "other.csv", dialect="excel")


def test_the_command_line_writes_it(patients: tuple[Path, Mechanism], tmp_path: Path) -> None:
    path, mechanism = patients
    mechanism.save(tmp_path / "m.json")
    done = run(
        "release",
        path,
        "--mechanism",
        tmp_path / "m.json",
        "-o",
        tmp_path / "r.csv",
        "--dialect",
        "semicolon",
    )
    assert done.exit_code == 0, done.output
    checked = run(
        "audit",
        path,
        tmp_path / "r.csv",
        "--mechanism",
        tmp_path / "m.json",
        "--attacker-rows",
        0,
        "--bootstrap",
        20,
    )
    assert checked.exit_code == 0, checked.output

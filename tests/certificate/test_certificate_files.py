"""Certificate files that somebody made to do harm: one line, exit code 2, little memory, no waiting."""

from __future__ import annotations

import io
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from forging import changed
from helpers_cli import assert_one_line_error, run
from privfunnel.certificate import (
    Certificate,
    ChiSquaredBody,
    PairsProof,
    PlainBody,
    load_bundle,
    save_bundle,
)
from privfunnel.errors import CertificateError, InvalidInputError

SCHEMA = {"schema": np.array("privfunnel/certificate"), "version": np.array(1), "count": np.array(1)}


def packed(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive(path: Path, members: dict[str, bytes], **how: int) -> Path:
    with zipfile.ZipFile(path, "w", **({"compression": zipfile.ZIP_DEFLATED} | how)) as target:
        for name, data in members.items():
            target.writestr(f"{name}.npy", data)
    return path


def header(shape: str, descr: str = "'<f8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (117 - len(text)) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def flagged_as_encrypted(data: bytes) -> bytes:
    """Set the flag of encryption in every header of a zip file."""
    changed = bytearray(data)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(signature)
        while place >= 0:
            changed[place + offset] |= 1
            place = data.find(signature, place + 1)
    return bytes(changed)


def with_numbers(data: bytes) -> dict[str, bytes]:
    head = SCHEMA | {"0.kind": np.array("plain"), "0.fingerprint": np.array("0" * 64)}
    return {name: packed(array) for name, array in head.items()} | {"0.claim.numbers": data}


CRAFTED: dict[str, Callable[[], dict[str, bytes]]] = {
    "a shape that the data do not fill": lambda: with_numbers(header("(1" + "0" * 15 + ",)")),
    "a shape below nothing": lambda: with_numbers(header("(-1, -8)") + bytes(64)),
    "a shape of endless nothing": lambda: with_numbers(header("(0, 1" + "0" * 40 + ")")),
    "a shape that is no shape": lambda: with_numbers(header("'x'")),
    "a shape that never ends": lambda: with_numbers(header("(((")),
    "a shape of an older Python": lambda: with_numbers(header("(1L,)") + bytes(8)),
    "text of no characters": lambda: (
        with_numbers(packed(np.zeros(3))) | {"0.fingerprint": header("()", "'<U1'") + b"\xff" * 4}
    ),
    "objects": lambda: with_numbers(header("(1,)", "'|O'") + bytes(8)),
    "records": lambda: with_numbers(header("(1,)", "[('a', '<f8')]") + bytes(8)),
    "text where numbers belong": lambda: with_numbers(packed(np.array(["a", "b", "c"]))),
    "no array at all": lambda: with_numbers(b"PK"),
    "a count beyond all bounds": lambda: with_numbers(b"") | {"count": packed(np.array(2**62))},
    "a count that is text": lambda: with_numbers(b"") | {"count": packed(np.array("many"))},
    "a table of counts": lambda: with_numbers(b"") | {"count": packed(np.ones((3, 3)))},
    "an infinite count": lambda: with_numbers(b"") | {"count": packed(np.array(np.inf))},
    "a count that is no number": lambda: with_numbers(b"") | {"count": packed(np.array(np.nan))},
}


@pytest.mark.parametrize("kind", CRAFTED)
def test_crafted_members_are_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    path = archive(tmp_path / "crafted.npz", CRAFTED[kind]())
    assert_one_line_error(
        run("verify", path, "synthetic-uniform"), "crafted.npz", "not a readable certificate file"
    )


@pytest.fixture(scope="module")
def neighbours() -> tuple[pf.Problem, list[Certificate]]:
    """Lines of both kinds: for guesses those of a program, for χ² what no multipliers at all prove."""
    problem = pf.instances.load("synthetic-uniform")
    least, most = pf.guessing_funnel.accuracy_range(problem)
    guesses = pf.guessing_funnel.solve(problem, 0.5 * (least + most)).certificate
    n = problem.n_x
    return problem, [guesses, ChiSquaredBody.build(problem, 0.01, np.zeros(n), np.zeros((n, n)))]


def test_certificates_of_neighbours_are_read_back_and_verified(tmp_path: Path, neighbours: Any) -> None:
    problem, lines = neighbours
    save_bundle(tmp_path / "lines.npz", lines)
    read = load_bundle(tmp_path / "lines.npz")
    assert [line.body.kind for line in read] == ["guessing", "chi-squared"]
    for line, again in zip(lines, read, strict=True):
        again.verify(problem)
        assert again.words == line.words
        assert (again.slope, again.intercept) == (line.slope, line.intercept)
    assert run("verify", tmp_path / "lines.npz", "synthetic-uniform").exit_code == 0
    with pytest.raises(InvalidInputError, match="check the path"):
        load_bundle(tmp_path / "nothing.npz")
    save_bundle(tmp_path / "empty.npz", [])
    assert_one_line_error(run("verify", tmp_path / "empty.npz", "synthetic-uniform"), "nothing is proved")


@pytest.mark.parametrize(
    ("which", "change"),
    [
        (0, {"intercept": -1.0}), (0, {"slope": 0.0}), (0, {"weights": np.full((3, 3), 1e-320)}),
        (0, {"weights": np.zeros((2, 3))}), (0, {"weights": np.zeros((0, 0))}), (1, {"intercept": 1.0}),
        (1, {"slope": 1.0}), (1, {"prices": np.full(3, np.inf)}), (1, {"entries": np.ones((3, 3))}),
        (1, {"entries": np.ones(9)}),
    ],
)  # fmt: skip
def test_forged_lines_of_neighbours_exit_with_2(
    tmp_path: Path, neighbours: Any, which: int, change: Any
) -> None:
    forged = changed(neighbours[1][which], **change)
    save_bundle(tmp_path / "forged.npz", [*neighbours[1], forged])
    assert_one_line_error(run("verify", tmp_path / "forged.npz", "synthetic-uniform"), "certificate")


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_packings_are_refused(tmp_path: Path, compression: int) -> None:
    path = archive(tmp_path / "odd.npz", with_numbers(b""), compression=compression)
    assert_one_line_error(run("verify", path, "synthetic-uniform"), "odd.npz", "packed")


def test_an_encrypted_file_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "locked.npz", with_numbers(packed(np.zeros(3))))
    path.write_bytes(flagged_as_encrypted(path.read_bytes()))
    assert_one_line_error(run("verify", path, "synthetic-uniform"), "locked.npz", "encrypted")


def test_a_small_file_with_huge_contents_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        for name, array in SCHEMA.items():
            target.writestr(f"{name}.npy", packed(array))
        with target.open("0.claim.numbers.npy", "w") as stream:
            stream.write(header("(40000000,)"))
            for _ in range(40):
                stream.write(bytes(8_000_000))
    assert path.stat().st_size < 2_000_000
    tracemalloc.start()
    try:
        with pytest.raises(CertificateError, match="more than a certificate file of its size"):
            load_bundle(path)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_size_that_is_announced_too_small_gains_nothing(tmp_path: Path) -> None:
    path = archive(tmp_path / "liar.npz", with_numbers(packed(np.zeros(1000))))
    size = len(packed(np.zeros(1000)))
    data = path.read_bytes().replace(size.to_bytes(4, "little"), (200).to_bytes(4, "little"))
    path.write_bytes(data)
    with pytest.raises(CertificateError, match="not a readable"):
        load_bundle(path)


def test_a_bundle_of_nothing_proves_nothing(tmp_path: Path) -> None:
    save_bundle(tmp_path / "none.npz", [])
    assert_one_line_error(
        run("verify", tmp_path / "none.npz", "synthetic-uniform"), "none.npz", "nothing is proved"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    assert_one_line_error(run("verify", tmp_path / "pipe.npz", "synthetic-uniform"), "pipe.npz", "not a file")


def test_a_folder_is_no_certificate(tmp_path: Path) -> None:
    assert_one_line_error(run("verify", tmp_path, "synthetic-uniform"), "certificate")


def test_arrays_that_pack_well_are_read_back(tmp_path: Path) -> None:
    problem = pf.Problem(np.full((2, 5000), 1e-4))
    cells = np.zeros(5000, dtype=np.int32)
    none = np.zeros(0, dtype=np.int32)
    proof = PairsProof(claim=-1.0, outer=none, inner=none)
    made = PlainBody.build(problem, np.zeros(5000), 0.5, [proof], cells=cells)
    save_bundle(tmp_path / "flat.npz", [made])
    (read,) = load_bundle(tmp_path / "flat.npz")
    assert read.body.cells is not None
    assert np.array_equal(read.body.cells, cells)
    assert read.intercept == made.intercept

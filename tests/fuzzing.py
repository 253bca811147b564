"""Damaged files, odd options and lying proofs of every kind: each ends in an answer or in one line, never in a crash.

And files for publication, of which no byte may depend on a suppressed value.

Run by hand for as long as you like: ``python tests/fuzzing.py --cases 20000 --seed 1``, or ``make fuzz``. Every case is
told by its kind, seed and number, and is the same on every run. Without ``--cases``, as in the tests, the cases share
one database in memory.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import os
import random
import sqlite3
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from click.testing import CliRunner

from privfunnel import release
from privfunnel.app.cli import main
from privfunnel.data import tables
from privfunnel.data.engines import ReadOptions, readers, sniff
from privfunnel.errors import InvalidInputError, PrivFunnelError
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.options import FORMS, NUMBERS
from privfunnel.solving.judging import INEXACT

sys.path.insert(0, str(Path(__file__).parent / "helpers"))

from workbooks import write_ods, write_xlsx

ROWS = [(f"p{i % 3}", i % 4, f"{i % 28 + 1:02d}.0{i % 9 + 1}.2020", f"{i}.5") for i in range(30)]
NAMES = ("s", "x", "d", "v")
INTERESTING = [b"\x00", b"\xff", b"\xff\xfe", b'"', b"'", b",", b";", b"\n", b"\r", b"\t", b"\\", b"{", b"[", b"-",
               b"9" * 30, b"\xef\xbb\xbf", b"\x1a", b"nan", b"inf", b"\x80\x81", b"=", b"*", b"~",
               b"\xf0\x9f\x98\x80"]  # fmt: skip
SIZES = {"csv": 350, "json": 100, "arrow": 250, "parquet": 200, "duckdb": 40, "sqlite": 125, "xlsx": 120, "ods": 60,
         "reading": 200, "options": 120, "mechanism": 100, "publication": 40, "proofs": 400,
         "certificate": 250, "device": 120}  # fmt: skip


# --- sound files ------------------------------------------------------------------------------------------------


def _csv(path: Path, rng: random.Random) -> None:
    mark = rng.choice(",;\t|")
    quote = rng.choice(["", '"'])
    lines = [mark.join(f"{quote}{value}{quote}" for value in row) for row in (NAMES, *ROWS)]
    path.write_bytes(
        (rng.choice(["\n", "\r\n"]).join(lines) + "\n").encode(rng.choice(["utf-8", "cp1252", "utf-16"]))
    )


def _json(path: Path, rng: random.Random) -> None:
    path.write_text("\n".join(json.dumps(dict(zip(NAMES, row, strict=True))) for row in ROWS))


def _arrow_table() -> Any:
    import pyarrow as pa

    columns = [list(column) for column in zip(*ROWS, strict=True)]
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(len(ROWS))]
    return pa.table(
        {"s": pa.array(columns[0]).dictionary_encode(), "x": columns[1], "d": days, "v": columns[3]}
    )


def _arrow(path: Path, rng: random.Random) -> None:
    import pyarrow.feather

    pyarrow.feather.write_feather(
        _arrow_table(), path, compression=rng.choice(["uncompressed", "lz4", "zstd"])
    )


def _parquet(path: Path, rng: random.Random) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(_arrow_table(), path, compression=rng.choice(["none", "snappy", "zstd"]))


def _duckdb(path: Path, rng: random.Random) -> None:
    import duckdb

    table = _arrow_table()
    with duckdb.connect(str(path)) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE t AS SELECT CAST(s AS VARCHAR) AS s, x FROM given")


def _sqlite(path: Path, rng: random.Random) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (s, x, d, v)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", ROWS)
    connection.commit()
    connection.close()


def _xlsx(path: Path, rng: random.Random) -> None:
    write_xlsx(path, {"One": [NAMES, *ROWS]})


def _ods(path: Path, rng: random.Random) -> None:
    write_ods(path, {"One": [NAMES, *ROWS]})


#: Commands that write a certificate of each kind; the first argument is the table that it is of.
PROVED: list[tuple[str, ...]] = [
    ("solve", "synthetic-uniform", "--disclosure", "70%"),
    ("solve", "synthetic-uniform", "--disclosure", "20%", "--guarantee", "lip=0.5"),
    ("solve", "synthetic-uniform", "--disclosure", "50%", "--measure", "maximal-leakage"),
    ("bottleneck", "synthetic-uniform", "--points", "3", "--certify"),
    ("guess", "synthetic-uniform", "--points", "3"),
]


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


#: What stands in the place of a file and has no end, or never begins.
ENDLESS: list[Callable[[Path], None]] = [
    os.mkfifo,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("/dev/tty"),
    _sparse,
]
_RELEASE = ("release", "t.csv", "-o", "new.csv", "--force", "--mechanism")
_KEPT = (*_RELEASE, "d/mechanism.json")
#: Names of files, and commands that read them.
READ: list[tuple[str, tuple[str, ...]]] = [
    ("m.json", (*_RELEASE, "m.json")),
    ("m.json", ("audit", "t.csv", "r.csv", "--mechanism", "m.json")),
    ("l.json", ("ledger", "show", "l.json")),
    ("l.json", (*_KEPT, "--ledger", "l.json")),
    (
        "l.json",
        ("solve", "t.csv", "--private", "s", "--public", "x", "--leakage", "5%", "--ledger", "l.json"),
    ),
    ("k.key", (*_KEPT, "--sticky", "k.key", "--series", "a", "--id", "v")),
    ("o.order", ("audit", "t.csv", "r.csv", "--mechanism", "d/mechanism.json", "--order", "o.order")),
    ("p.json", ("solve", "p.json", "--disclosure", "50%")),
    ("p.csv", ("solve", "p.csv", "--disclosure", "50%")),
    ("c.npz", ("verify", "c.npz", "synthetic-uniform")),
    ("p.json", ("verify", "d/certificate.npz", "p.json")),
    ("c.csv", ("solve", "d/solution.json", "--distortion", "0.1", "--cost", "x=c.csv")),
]

FILES: dict[str, tuple[str, Callable[[Path, random.Random], None]]] = {
    "csv": ("csv", _csv), "json": ("jsonl", _json), "arrow": ("arrow", _arrow), "parquet": ("parquet", _parquet),
    "duckdb": ("duckdb", _duckdb), "sqlite": ("sqlite", _sqlite), "xlsx": ("xlsx", _xlsx), "ods": ("ods", _ods),
}  # fmt: skip


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, put in, taken out, repeated or cut off."""
    found = bytearray(data)
    if rng.random() < 0.5:  # the places of everything stay, so that readers get further
        for _ in range(rng.choice([1, 1, 2, 8])):
            found[rng.randrange(len(found))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
        return bytes(found)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        at = rng.randrange(len(found)) if found else 0
        action = rng.randrange(6)
        if action <= 1 and found:
            found[at] = rng.randrange(256)
        elif action == 2 and found:
            found[at] ^= 1 << rng.randrange(8)
        elif action == 3:
            found[at:at] = rng.choice(INTERESTING)
        elif action == 4:
            del found[at : at + rng.choice([1, 2, 8, 64])]
        elif rng.random() < 0.2:
            del found[at:]
        else:
            found[at:at] = found[at : at + rng.choice([1, 8, 64])]
    return bytes(found)


def _repacked(path: Path, data: bytes, rng: random.Random) -> None:
    """A workbook or an archive of arrays with one of its parts changed, and packed as it should be."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    changed = rng.choice(list(parts))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, mutated(content, rng) if name == changed else content)


# --- cases ------------------------------------------------------------------------------------------------------


class Fuzz:
    """Cases of one kind in a folder of their own."""

    def __init__(self, kind: str, seed: int, folder: Path) -> None:
        self.kind, self.seed, self.folder = kind, seed, folder
        self.sound: dict[int, bytes] = {}

    def run(self, number: int) -> str:
        """One case: ``"read"`` or ``"refused"``.

        Raises:
            Exception: Anything but an error of ours in one line.
        """
        rng = random.Random(f"{self.kind} {self.seed} {number}")
        try:
            getattr(self, f"_{self.kind}", self._file)(rng)
        except PrivFunnelError as error:
            words = str(error)
            if "\n" in words or len(words) > 900 or not words.strip():
                raise AssertionError(f"not one short line: {words!r}") from error
            return "refused"
        return "read"

    def _file(self, rng: random.Random) -> None:
        suffix, make = FILES[self.kind]
        variant = rng.randrange(4)
        path = self.folder / f"t.{suffix}"
        if variant not in self.sound:
            path.unlink(missing_ok=True)
            make(path, random.Random(variant))
            self.sound[variant] = path.read_bytes()
        if self.kind in {"xlsx", "ods"} and rng.random() < 0.7:
            _repacked(path, self.sound[variant], rng)
        else:
            path.write_bytes(mutated(self.sound[variant], rng))
        inner = "::t" if self.kind in {"duckdb", "sqlite"} else ""
        tables.count(f"{path}{inner}", private="s", public="x")

    def _reading(self, rng: random.Random) -> None:
        """Options of reading, sensible and not, on a sound text file."""
        _csv(self.folder / "t.csv", rng)
        texts = ["", ",", ";", "tab", '"', "'", "\\", ".", "utf-8", "cp1252", "utf-16", "ascii", "rot13", "One", "dmy",
                 "x" * 50, "\0", "\n", "é"]  # fmt: skip
        names = ["delimiter", "encoding", "decimal", "quote", "escape", "sheet", "dates"]
        given: dict[str, Any] = {name: rng.choice(texts) for name in rng.sample(names, rng.randrange(4))}
        if rng.random() < 0.3:
            given["columns"] = rng.sample(["s", "x", "d", "v", "S", ""], rng.randrange(6))
        if rng.random() < 0.3:
            given["types"] = {
                rng.choice(["s", "x", "d", "v", "q"]): rng.choice(
                    ["text", "number", "date", "datetime", "what"]
                )
            }
        if rng.random() < 0.2:
            given["nulls"] = [rng.choice(["p1", "", "'", "1"])]
        read = ReadOptions.from_dict(given)
        sniff(self.folder / "t.csv", read)
        tables.count(self.folder / "t.csv", private="s", public=rng.choice(["x", "d", "v"]), read=read)

    def _options(self, rng: random.Random) -> None:
        """Command lines made of options and odd values."""
        _csv(self.folder / "t.csv", random.Random(0))
        values = ["", "x", "s", "s,x", '"s","x"', '"s', "a=b", "x=5", "x=top:3", "d=month", "d=age@2020-01-01",
                  "x=edges:1", "=", "~", "x" * 400, "\u202e", "%", "-1", "1e400", "dmy", ";", "nan",
                  str(self.folder), str(self.folder / "t.csv")]  # fmt: skip
        options = ["--private", "--public", "--bin", "--person", "--columns", "--type", "--null", "--delimiter",
                   "--encoding", "--decimal", "--quote", "--sheet", "--dates", "--disclosure", "--out",
                   "--option", "--restarts"]  # fmt: skip
        source = rng.choice([str(self.folder / "t.csv")] * 6 + values)
        arguments: list[object] = ["solve", source, "--time-limit", "0.2"]
        if rng.random() < 0.7:
            arguments += ["--private", "s", "--public", "x"]
        for option in rng.sample(options, rng.randrange(1, 4)):
            arguments += [option, rng.choice(values)]
        self._command(*arguments, "--disclosure", "50%")

    def _command(self, *arguments: object) -> bool:
        """Run a command in the folder: whether it did what it was asked for, and did not refuse it in one line.

        Raises:
            AssertionError: It did neither.
        """
        folder = Path.cwd()
        os.chdir(self.folder)  # what --out makes stays here
        try:
            done = CliRunner().invoke(main, [str(argument) for argument in arguments])
        finally:
            os.chdir(folder)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise AssertionError(f"{arguments}: {done.exception!r}") from done.exception
        last = done.stderr.strip().splitlines()[-1:]
        if done.exit_code == 2 and not (last and last[0].lower().startswith("error: ")):
            raise AssertionError(f"{arguments}: exit code 2 and {done.stderr!r}")
        return done.exit_code == 0

    def _certificate(self, rng: random.Random) -> None:
        """Certificates with damaged bytes, packed as they should be or not."""
        variant = rng.randrange(len(PROVED))
        path = self.folder / "certificate.npz"
        if variant not in self.sound:
            path.unlink(missing_ok=True)
            out = self.folder / f"{variant}"
            assert self._command(*PROVED[variant], "--out", out)
            self.sound[variant] = next(out.glob("*.npz")).read_bytes()
        if rng.random() < 0.7:
            _repacked(path, self.sound[variant], rng)
        else:
            path.write_bytes(mutated(self.sound[variant], rng))
        if not self._command("verify", path, PROVED[variant][1], *(rng.choice([[], ["--json"]]))):
            raise InvalidInputError("refused")

    def _device(self, rng: random.Random) -> None:
        """Pipes, devices and endless files in the place of every file that is read."""
        if not self.sound:
            _csv(self.folder / "t.csv", random.Random(0))
            columns = ("--private", "s", "--public", "x")
            assert self._command("solve", "t.csv", *columns, "--disclosure", "50%", "--out", "d")
            assert self._command(
                "release", "t.csv", "--mechanism", "d/mechanism.json", "-o", "r.csv", "--as", "symbols"
            )
            self.sound[0] = b"made"
        place, arguments = rng.choice(READ)
        at = self.folder / place
        at.unlink(missing_ok=True)
        try:
            rng.choice(ENDLESS)(at)
            done = self._command(*arguments)
        finally:
            at.unlink(missing_ok=True)
        if done:
            raise AssertionError(f"{arguments}: took a device for a file")
        raise InvalidInputError("refused")

    def _mechanism(self, rng: random.Random) -> None:
        """Mechanism files whose parts are exchanged for others."""
        path = self.folder / "m.json"
        if not self.sound:
            import privfunnel as pf

            _csv(self.folder / "t.csv", random.Random(0))
            counts = tables.count(self.folder / "t.csv", private="s", public=["x", "d"], bins={"d": "month"})
            Mechanism.from_solution(counts, pf.solve(counts.problem(), disclosure=0.5, solver="aem")).save(
                path
            )
            self.sound[0] = path.read_bytes()
        if rng.random() < 0.3:
            path.write_bytes(mutated(self.sound[0], rng))
        else:
            data = json.loads(self.sound[0])
            for _ in range(rng.choice([1, 1, 2])):
                _exchange(data, rng)
            path.write_text(json.dumps(data))
        found = Mechanism.load(path)
        assert found.to_dict()

    def _publication(self, rng: random.Random) -> None:
        """Files of two tables that differ in one suppressed value, which are to be the same."""
        odd = [
            ",",
            ";",
            '"',
            "'",
            "=",
            "-",
            "@",
            " ",
            "é",
            "\t",
            "\n",
            "\\",
            "null",
            "(other)",
            "9",
            "Z" * 40,
            "東",
            "\0",
        ]
        common = ["".join(rng.sample(odd[:-1], rng.randrange(3))) + name for name in ("Bonn", "Ulm", "Köln")]
        rare = ["".join(rng.sample(odd, rng.randrange(4))) + f"§{i}" for i in range(3)]
        rows = rng.randrange(60, 200)
        town = [rng.choice(common) for _ in range(rows)]
        held = {
            "s": [rng.choice(["p", "q", common[0]]) for _ in range(rows)],
            "x": [rng.choice([0, 1, 2, None]) for _ in range(rows)],
            "d": [
                datetime.date(2020, 1, 1) + datetime.timedelta(days=rng.randrange(700)) for _ in range(rows)
            ],
        }
        at = rng.sample(range(rows), 2)
        options: dict[str, Any] = {"numbers": rng.choice(NUMBERS), "threshold": rng.choice([2, 5]),
                                   "raw_text": rng.random() < 0.5, "keep_order": rng.random() < 0.5,
                                   "dialect": rng.choice(["plain", "semicolon"]),
                                   "form": rng.choice(FORMS)}  # fmt: skip
        suffix, book, seed = (
            rng.choice(["parquet", "parquet", "csv"]),
            rng.choice(["json", "csv"]),
            rng.randrange(99),
        )
        found = []
        for first in rare[:2]:
            told = list(town)
            told[at[0]], told[at[1]] = first, rare[2]
            found.append(self._published({**held, "t": told}, suffix, book, seed, options))
        assert found[0] == found[1], (rare, options)

    def _published(
        self, columns: dict[str, list[Any]], suffix: str, book: str, seed: int, options: dict[str, Any]
    ) -> list[bytes]:
        """A release of a table and its codebook, byte by byte."""
        import pyarrow as pa

        import privfunnel as pf

        table, role = pa.table(columns), ["x", "t", "d"]
        counts = tables.count(table, private="s", public=role, bins={"d": "quarter"})
        problem = counts.problem()
        solution = pf.solve(problem, disclosure=0.5 * problem.disclosure_ceiling, solver="greedy")
        files = [self.folder / f"r.{suffix}", self.folder / f"r.codebook.{book}"]
        release.write(
            table,
            Mechanism.from_solution(counts, solution),
            files[0],
            codebook=files[1],
            seed=seed,
            force=True,
            **options,
        )
        return [file.read_bytes() for file in files]

    def _proofs(self, rng: random.Random) -> None:
        """Certificates that lie by little or much: what the channel in hand refutes is refused."""
        from lies import believed, cases, lying

        case = rng.choice(list(cases().values()))
        lie = rng.choice([-1.0, 1.0, 1.0]) * 10.0 ** rng.uniform(-6.0, 4.0)
        proof = lying(case.proof, lie, rng.choice(["intercept", "intercept", "slope"]))
        with believed():
            found = case.judge(proof)
        assert found.lower_bound <= found.leakage
        assert found.gap >= 0.0
        channel = case.problem.check_channel(found.channel)
        left = proof.claim.left_over(case.problem, channel)
        assert left >= -INEXACT, f"believed what a channel contradicts by {-left}"


def _exchange(data: Any, rng: random.Random) -> None:
    """Put something else at a random place of a JSON document, or take it out."""
    odd = [None, True, -1, 1e308, "", "x", [], {}, [[]], 10**30, [None], {"a": 1}, "9" * 50]
    at = data
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.7:
            at = at[key]
            continue
        if rng.random() < 0.15:
            del at[key]
        else:
            at[key] = rng.choice(odd)
        return


@contextlib.contextmanager
def one_database() -> Iterator[None]:
    """Let every file be read by a connection of its own to one DuckDB in memory, which takes most of a case's time."""
    fresh = readers.connect
    with contextlib.ExitStack() as outer:
        shared = fresh(outer)

        def connect(stack: contextlib.ExitStack, database: str = ":memory:", **options: Any) -> Any:
            if database != ":memory:":
                return fresh(stack, database, **options)
            connection = shared.cursor()
            stack.callback(connection.close)
            return connection

        with mock.patch.object(readers, "connect", connect):
            yield


def fuzz(
    kinds: dict[str, int], seed: int, *, log: Path | None = None, fresh: bool = False
) -> dict[str, Counter[str]]:
    """Run cases; the number of each outcome by kind.

    Args:
        kinds: How many cases of each kind.
        seed: Which cases.
        log: Where the case that is under way is written, so that a crash can be told.
        fresh: Whether each file gets a database of its own, as it does for people.

    Raises:
        AssertionError: A case ended in something else than an answer or one line.
    """
    outcomes: dict[str, Counter[str]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-") as root,
        warnings.catch_warnings(),
        contextlib.nullcontext() if fresh else one_database(),
    ):
        warnings.simplefilter("ignore")
        for kind, size in kinds.items():
            folder = Path(root) / kind
            folder.mkdir()
            cases, outcomes[kind] = Fuzz(kind, seed, folder), Counter()
            for number in range(size):
                case = f"{kind} {seed} {number}"
                if log is not None:
                    log.write_text(case)
                try:
                    outcomes[kind][cases.run(number)] += 1
                except Exception as error:
                    raise AssertionError(f"case {case}: {error!r}") from error
    return outcomes


def run() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default=",".join(SIZES))
    parser.add_argument("--cases", type=int, help="cases of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path)
    given = parser.parse_args()
    kinds = {kind: given.cases or SIZES[kind] for kind in given.kinds.split(",")}
    outcomes = fuzz(kinds, given.seed, log=given.log, fresh=given.cases is not None)
    sys.stdout.write(json.dumps(outcomes, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run())

"""What the repository as a whole promises: nothing of one machine in it, one version, files a person can read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import click
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from privfunnel.app.cli import main

ROOT = Path(__file__).resolve().parents[2]

# Written so that the patterns do not find themselves.
MACHINE_PATHS = re.compile(r"/(w[o]rk|h[o]me|r[o]ot|U[s]ers|t[m]p/team)/|C:\\\\U[s]ers")
REGISTRIES = re.compile(
    r"pypi\.o[r]g|pythonh[o]sted|npmj[s]\.|deb\.d[e]bian|--(extra-)?index-u[r]l|anaconda\.o[r]g"
)
UNFINISHED = re.compile(r"\b(TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b|raise NotImplemented[E]rror")


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout, so there is no list of committed files")
    return [path for name in listing.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def text_of(path: Path) -> str | None:
    data = path.read_bytes()
    return None if b"\0" in data else data.decode("utf-8")


def hits(paths: list[Path], pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in paths:
        for number, line in enumerate((text_of(path) or "").splitlines(), start=1):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    return found


def test_patterns_find_what_they_look_for() -> None:
    assert MACHINE_PATHS.search("see /" + "work/data")
    assert REGISTRIES.search("--index-" + "url https://example.test")
    assert UNFINISHED.search("# TO" + "DO later")


def test_no_committed_file_names_a_machine_path(tracked: list[Path]) -> None:
    assert hits(tracked, MACHINE_PATHS) == []


def test_no_committed_file_names_a_registry(tracked: list[Path]) -> None:
    assert hits(tracked, REGISTRIES) == []


def test_nothing_is_left_unfinished(tracked: list[Path]) -> None:
    assert hits([path for path in tracked if path.suffix in {".py", ".toml"}], UNFINISHED) == []


def test_no_large_files(tracked: list[Path]) -> None:
    large = [str(path.relative_to(ROOT)) for path in tracked if path.stat().st_size > 1 << 20]
    assert large == []


def test_the_version_is_the_same_everywhere() -> None:
    from privfunnel import __version__

    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_every_locked_package_has_a_hash() -> None:
    for lock in sorted((ROOT / "requirements").glob("*.txt")):
        entries = re.split(r"\n(?=[A-Za-z0-9])", lock.read_text("utf-8"))
        entries = [entry for entry in entries if not entry.startswith("#")]
        assert entries
        assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_extras_of_locked_packages_are_locked_with_them() -> None:
    # The pip of Python 3.11 takes name[extra] for another package than name, and asks for the newest one.
    locked = dict[str, set[str]]()
    for line in (ROOT / "requirements/dev.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith((" ", "#")):
            found = Requirement(line.removesuffix("\\").strip())
            locked.setdefault(canonicalize_name(found.name), set()).update(found.extras)
    asked = [
        (canonicalize_name(each.name), each.extras)
        for name in locked
        for each in map(Requirement, _needs_of(name))
        if each.extras and (each.marker is None or each.marker.evaluate({"extra": ""}))
    ]
    assert ("coverage", {"toml"}) in asked
    assert [(name, extras) for name, extras in asked if not extras <= locked.get(name, extras)] == []


def _needs_of(name: str) -> list[str]:
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # locked for another Python or system
        return []


def test_everything_that_ci_installs_is_checked_by_its_hash() -> None:
    """The package itself is built here, and `make lock`, which makes the hashes, is not run by CI."""
    text = (ROOT / ".ci" / "run").read_text() + (ROOT / "Makefile").read_text()
    commands = [line for line in text.replace("\\\n", " ").splitlines() if "pip install" in line]
    unchecked = [line.strip() for line in commands if "--require-hashes" not in line]
    assert len(commands) > 4
    assert len(unchecked) == 2
    assert any("--no-deps --no-build-isolation -e ." in line for line in unchecked)
    assert any(line.endswith("uv") for line in unchecked)


def test_extras_are_what_the_advice_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    advice = re.compile(r"need\(\s*\"[\w.]+\",\s*(?:extra=)?\"(\w+)\"")
    named = {
        extra for path in (ROOT / "src").rglob("*.py") for extra in advice.findall(path.read_text("utf-8"))
    }
    assert named <= extras


def test_links_between_the_pages_lead_somewhere(tracked: list[Path]) -> None:
    link = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in tracked
        if path.suffix == ".md"
        for target in link.findall(path.read_text("utf-8"))
        if not (path.parent / target).exists()
    ]
    assert broken == []


def test_the_readme_names_real_commands() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    named = set(re.findall(r"^    privfunnel (\w+)", text, flags=re.MULTILINE))
    assert {"curve", "solve", "reproduce"} <= named <= set(main.list_commands(click.Context(main)))
    for command in ("make run", "make test"):
        assert command in text


def test_the_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), flags=re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    told = capsys.readouterr().out
    assert "4 private × 16 public symbols" in told
    assert re.search(r"\n0\.\d+ \S+ optimal\n", told)


def test_the_whole_check_begins_with_the_two_commands_of_the_readme_before_anything_is_installed() -> None:
    readme = (ROOT / "README.md").read_text("utf-8").partition("## Two commands")[2]
    promised = re.findall(r"^    (make \w+)", readme.partition("Both need Python")[0], re.MULTILINE)
    check = (ROOT / ".ci/run").read_text("utf-8")
    commands = [line.partition("#")[0].strip() for line in check.splitlines()]
    places = [
        next(n for n, command in enumerate(commands) if command.startswith(wanted)) for wanted in promised
    ]
    assert promised == ["make run", "make test"]
    assert places == sorted(places)
    before = "\n".join(commands[: places[-1]])
    assert "git clone" in before
    assert not re.search(r"\binstall\b|\bpip\b", before)


def test_only_where_everything_is_installed_is_coverage_judged() -> None:
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\ntest: install\n")[2].partition("\n\n")[0]
    assert "pytest" in recipe
    assert "--cov" not in recipe
    assert 'TESTS="--cov' in (ROOT / ".ci/run").read_text("utf-8")


def test_only_ci_waits_for_slow_tests() -> None:
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\ntest: install\n")[2].partition("\n\n")[0]
    assert '-m "not slow" --durations=10' in recipe
    assert """-m ''\"""" in (ROOT / ".ci/run").read_text("utf-8")


def test_a_run_that_skips_ends_with_how_to_run_the_rest(tmp_path: Path) -> None:
    (tmp_path / "test_optional.py").write_text(
        "import pytest\ndef test_there():\n    pytest.importorskip('a_library_that_is_not_there')\n"
    )
    settings = ["-p", "conftest", "-c", str(ROOT / "pyproject.toml")]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "--no-cov", *settings, str(tmp_path)],
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        | {"PYTHONPATH": str(ROOT / "tests")},
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line for line in ran.stdout.splitlines() if "1 skipped, each for the reason above" in line]
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(told) == 1
    for name in re.findall(r"requirements/\S+\.txt", told[0]):
        assert (ROOT / name).is_file()

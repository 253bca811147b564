"""The same release without the page: as shell commands and as a Python script."""

from __future__ import annotations

import shlex
from pathlib import PurePath

from privfunnel.app.explorer import guard_choice as guards
from privfunnel.app.explorer import reading
from privfunnel.app.explorer.ledger_keeping import Keeping
from privfunnel.app.explorer.workspace import Setting
from privfunnel.measures import nats_per
from privfunnel.report import view
from privfunnel.solving.curve import Curve
from privfunnel.solving.solution import Solution


def released_name(setting: Setting) -> str:
    """Return the name of the released file: ``patients.csv`` becomes ``patients.released.csv``."""
    return f"{PurePath(setting.name).stem}.released.csv"


def command_line(
    setting: Setting,
    curve: Curve,
    solution: Solution,
    *,
    exact: bool = True,
    units: str = "bits",
    form: str = "records",
    keeping: Keeping | None = None,
) -> str:
    """Return the shell commands that design the mechanism and release the table in a form.

    What is published has them with a rounded disclosure (``exact=False``): all digits of an amount of information, the
    largest that leaks nothing say, would help to recover the counts.

    Column names are separated by commas on the command line, and a bin's name ends at its equals sign: where a name
    holds one of them, or the file is read in a way that the command line has no option for, the commands start from the
    downloaded mechanism instead.
    """
    design = "design/mechanism.json"
    lines = []
    names = (*setting.private, *setting.public, *([setting.task] if setting.task else []))
    awkward = any("," in name or name != name.strip() for name in names) or any(
        "=" in name for name in (*setting.bins, setting.task)
    )
    if awkward or not reading.sayable(setting.reading):
        design = "mechanism.json"
        lines.append("# with mechanism.json from the downloads:")
    else:
        solve = ["privfunnel", "solve", *table_arguments(setting)]
        solve += [
            f"--{curve.along[0]}",
            f"{view.place(curve, solution) / nats_per(units)!r} {units}"
            if exact
            else _share(curve, solution),
            *guards.arguments(curve),
            "--solver",
            "auto" if not curve.guards.plain or setting.task else curve.solver,
            "--seed",
            str(curve.seed),
        ]
        lines.append(_wrapped([*solve, "--out", "design"]))
    release = ["privfunnel", "release", _argument(setting.name), "--mechanism", design, "--as", form]
    if not lines[0].startswith("#"):  # else the mechanism remembers it
        release += reading.arguments(setting.reading)
    release += [] if keeping is None else keeping.arguments
    lines.append(_wrapped([*release, "--out", _argument(released_name(setting))]))
    return "\n".join(lines)


def _share(curve: Curve, solution: Solution) -> str:
    """Return the disclosure as a share of H(X), or the utility as one of I(U;X), rounded."""
    return f"{100.0 * view.place(curve, solution) / (view.ceiling(curve) or 1.0):.1f}%"


def table_arguments(setting: Setting) -> list[str]:
    """Return the table and its roles as the command line takes them."""
    bins = [part for column, rule in setting.bins.items() for part in ("--bin", f"{column}={rule}")]
    roles = ["--private", ",".join(setting.private), "--public", ",".join(setting.public)]
    roles += [part for name, value in setting.rows.items() for part in (f"--{name}", value)]
    return [_argument(setting.name), *roles, *bins, *reading.arguments(setting.reading)]


def _argument(name: str) -> str:
    """Return a file's name so that no command takes it for an option."""
    return f"./{name}" if name.startswith("-") else name


def _wrapped(parts: list[str]) -> str:
    """Return a command over several lines, an option a line."""
    text = shlex.join(parts[:3])
    for part in parts[3:]:
        text += (" \\\n  " if part.startswith("--") else " ") + shlex.quote(part)
    return text


def script(
    setting: Setting, curve: Curve, solution: Solution, places: tuple[float, ...], *, form: str = "records"
) -> str:
    """Return a Python script that counts, traces, chooses, releases and reports.

    Names come from files that others may have made: they enter the script as literals (``repr``) and nowhere else.
    """
    read = f"\n        read={reading.literal(setting.reading)}," if setting.reading else ""
    rows = "".join(f"\n        {name}={value!r}," for name, value in setting.rows.items())
    again = f", read={reading.literal(setting.reading)}" if setting.reading else ""
    given = guards.of_curve(curve)
    more = "" if not given else f", gap={curve.target_gap!r}, throw=False, **guards"
    named = f", solver={curve.solver!r}" if curve.guards.plain and not setting.task else ""
    said = f"guards = {given!r}\n    " if given else ""
    plural = "utilities" if setting.task else "disclosures"
    traced = f"""{said}{plural} = {list(places)!r}
    curve = pf.trace(problem, {plural}={plural}{named}, seed={curve.seed}{more})"""
    return f'''"""Release the table at the point chosen in the explorer."""

import privfunnel as pf
from privfunnel.release.mechanism import Mechanism
from privfunnel.report import Report

TABLE = {setting.name!r}


def main() -> None:
    counts = pf.tables.count(
        TABLE,
        private={list(setting.private)!r},
        public={list(setting.public)!r},
        bins={setting.bins!r},{read}{rows}
    )
    problem = counts.problem()
    {traced}
    solution = curve.at({view.place(curve, solution)!r})  # nats
    mechanism = Mechanism.from_solution(counts, solution)
    mechanism.save("mechanism.json")
    pf.release.write(TABLE, mechanism, {released_name(setting)!r}, form={form!r}{again})
    pf.report.write("report.html", curve, Report(source=TABLE, chosen=solution))


if __name__ == "__main__":
    main()
'''

"""What a chosen point can be taken home as: mechanism, sanitised table, report, and how to make them again."""

from __future__ import annotations

import hashlib
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from privfunnel import audit
from privfunnel.app.explorer import ledger_entries as entering
from privfunnel.app.explorer import reading, recipes, release_files
from privfunnel.app.explorer.ledger_keeping import Keeping
from privfunnel.app.explorer.workspace import Setting
from privfunnel.audit import PopulationBand
from privfunnel.certificate import save_bundle
from privfunnel.errors import InvalidInputError, MissingExtraError
from privfunnel.infra.storage import Document, write_text
from privfunnel.model.channels import entries_of
from privfunnel.release import codebook
from privfunnel.release.mechanism import Mechanism
from privfunnel.report import FORMS, Report
from privfunnel.report import write as write_report
from privfunnel.solving.curve import Curve
from privfunnel.solving.solution import Solution

FOLDER = "exports"
#: Most rows that the models of a report are trained on and judged by: somebody is waiting.
MODEL_ROWS = 5_000

PUBLISH = "publish"
CONFIDENTIAL = "keep confidential"

#: File to the group it belongs to, its title and what it is. What holds the exact table, or what follows from it, is
#: confidential.
DOWNLOADS = {
    "release.csv": (PUBLISH, "Sanitised table", "CSV with the public columns, values drawn from the release"),
    "release.parquet": (PUBLISH, "Sanitised table, Parquet", "the same columns in Parquet"),
    "symbols.csv": (
        PUBLISH,
        "Released symbols",
        "one column with the symbol itself, for use with the codebook",
    ),
    "decoys.csv": (
        PUBLISH,
        "Decoys",
        "CSV with a few weighted candidates for each row, the true one among them: all that the symbol says",
    ),
    "decoys.parquet": (PUBLISH, "Decoys, Parquet", "the same candidates in Parquet"),
    "codebook.json": (PUBLISH, "Codebook", "what each released symbol says: p(y), p(x|y), p(s|y), rounded"),
    "report.html": (
        PUBLISH,
        "Report",
        "for a review board to sign: what is released and promised, in rounded numbers",
    ),
    "mechanism.json": (CONFIDENTIAL, "Mechanism", "the channel with its promise, to release further tables"),
    "certificates.npz": (
        CONFIDENTIAL,
        "Certificates",
        "the proofs of the lower bounds, for privfunnel verify",
    ),
    "release.py": (CONFIDENTIAL, "Script", "makes the same again; it names the private columns"),
}


#: Files that speak of the chosen form: each form has its own, so that none is fetched in place of another.
OF_FORM = ("report.html", "release.py")

#: Hears how far a task is: ``done`` of ``total``, 0 where that is not known, and a message.
Tell = Callable[[int, int, str], None]


def silent(done: int, total: int, message: str) -> None:
    """Tell nobody."""


class Exported(NamedTuple):
    """What is taken home: a point of a curve, its points' places, and what holds for people like those of the table.

    Rows are released in a ``form``, which the report and the script speak of, and are kept account of in ``keeping``.
    """

    curve: Curve
    solution: Solution
    places: tuple[float, ...]
    population: PopulationBand | None = None
    form: str = "records"
    keeping: Keeping = Keeping()


def offer(setting: Setting, found: Exported, held: dict[str, str], *, units: str, form: str) -> Document:
    """Return the list of downloads, and for a form of the release the command line and the script.

    Args:
        setting: The counted table.
        found: The chosen point.
        held: The released files that can be made, each with its form.
        units: What amounts are told in.
        form: The form that commands and script release; records where it cannot be had.
    """
    curve, solution, places = found[:3]
    absent = {name for name in release_files.DECOY_FILES if name not in held}
    absent |= set() if curve.certificates else {"certificates.npz"}
    forms = list(dict.fromkeys(held.values()))
    form = form if form in forms else forms[0]
    return {
        "downloads": [
            {"name": name, "group": group, "title": title, "about": about}
            for name, (group, title, about) in DOWNLOADS.items()
            if name not in absent
        ],
        "forms": forms,
        "form": form,
        "command": recipes.command_line(
            setting, curve, solution, units=units, form=form, keeping=found.keeping
        ),
        "script": recipes.script(setting, curve, solution, places, form=form),
    }


def clear(folder: Path) -> None:
    """Remove what was exported from a table that is no longer loaded."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def write(name: str, folder: Path, setting: Setting, found: Exported, tell: Tell = silent) -> Path:
    """Write one of the downloads into a folder and return its path; ``tell`` hears how far that is.

    A table is drawn once for a point: its formats share the draw, and asking again gives the same file, since every
    further draw would tell more.

    Raises:
        InvalidInputError: There is no such download, or no such form.
    """
    if name not in DOWNLOADS:
        raise InvalidInputError(f"there is no export {name!r}: choose one of {', '.join(DOWNLOADS)}")
    curve, solution, places, population, form, keeping = found
    if form not in FORMS:
        raise InvalidInputError(f"there is no form {form!r}: choose one of {', '.join(FORMS)}")
    mechanism = Mechanism.from_solution(setting.counts, solution)
    place = _place(folder, setting, mechanism)
    target = place / form / name if name in OF_FORM else place / name
    target.parent.mkdir(exist_ok=True)
    if name == "release.py":
        write_text(target, recipes.script(setting, curve, solution, places, form=form))
    elif name == "mechanism.json":
        mechanism.save(target)
    elif name == "codebook.json":
        write_text(target, codebook.render(mechanism, target))
    elif name == "certificates.npz":
        if not curve.certificates:
            raise InvalidInputError("this curve has no certificates: draw it with the solver auto or global")
        save_bundle(target, curve.certificates)
    elif name == "report.html":
        tell(0, 0, "Auditing the mechanism, and writing the report")
        write_report(
            target,
            curve,
            Report(
                source=setting.name,
                chosen=solution,
                records=mechanism if form == "records" else None,
                private=setting.private_axis,
                public=setting.public_axis,
                persons=setting.counts.persons,
                population=population,
                audit=audit.table(setting.source, mechanism, read=reading.options(setting.reading)),
                **_for_task(setting, mechanism),
                form=FORMS[form],
                table=shlex.join(recipes.table_arguments(setting)),
                command=recipes.command_line(setting, curve, solution, exact=False, form=form),
            ),
        )
    else:
        if name in release_files.DECOY_FILES:
            release_files.required_lists(mechanism)  # says why not
        _draw(place, setting, mechanism, keeping, tell)
    return target


def audited(
    folder: Path, setting: Setting, solution: Solution, form: str, keeping: Keeping, tell: Tell = silent
) -> Document:
    """Audit a released form of a point, the very file that is downloaded; see :func:`.release_files.audited`.

    Raises:
        InvalidInputError: There is no such form of this point.
    """
    mechanism = Mechanism.from_solution(setting.counts, solution)
    place, read = _place(folder, setting, mechanism), reading.options(setting.reading)
    if form not in release_files.files(release_files.lists_of(mechanism)).values():
        raise InvalidInputError(f"this point cannot be released as {form!r}: choose another form")
    _draw(place, setting, mechanism, keeping, tell)
    tell(0, 0, "Comparing the released rows with the table")
    return release_files.audited(setting.source, mechanism, place, form, read)


def account(folder: Path, setting: Setting, solution: Solution, keeping: Keeping, units: str) -> Document:
    """What the page says of the ledger beside a point; see :func:`.ledger_entries.account`."""
    mechanism = Mechanism.from_solution(setting.counts, solution)
    return entering.account(keeping, setting, mechanism, _place(folder, setting, mechanism), units)


def _place(folder: Path, setting: Setting, mechanism: Mechanism) -> Path:
    """The folder of a release, which is there then."""
    place = folder / FOLDER / _key(setting, mechanism)
    place.mkdir(parents=True, exist_ok=True)
    return place


def _draw(place: Path, setting: Setting, mechanism: Mechanism, keeping: Keeping, tell: Tell) -> None:
    """Draw a release and enter it in the ledger that is kept, unless that was done before."""
    drawn = all((place / file).exists() for file in release_files.FILES)
    if drawn and not entering.wanted(keeping, place):
        return
    held = release_files.files(release_files.lists_of(mechanism))
    targets = {place / name: form for name, form in held.items()}
    with entering.entering(keeping, setting, mechanism, list(targets)) as enter:
        if not all(file.exists() for file in targets):
            read = reading.options(setting.reading)
            rows = setting.counts.n_rows
            tell(0, rows, "Drawing the release")
            release_files.write(
                setting.source,
                mechanism,
                targets,
                read,
                {**keeping.draws, "enter": enter},
                lambda done: tell(done, rows, f"Drawing the release: {done:,} of {rows:,} rows"),
            )


def _for_task(setting: Setting, mechanism: Mechanism) -> Document:
    """What the report says of a task: what the release is good for, and what else is as good."""
    if not setting.task:
        return {}
    read = reading.options(setting.reading)
    try:
        found = audit.for_task(setting.source, mechanism, read=read, rows=MODEL_ROWS)
    except MissingExtraError:  # models are an extra; what would be as good needs none
        found = audit.for_task(setting.source, mechanism, read=read, rows=0)
    return {"task_alternatives": found.instead, "usefulness": (*found.tasks, *found.private)}


def _key(setting: Setting, mechanism: Mechanism) -> str:
    """Return what tells a release from others: equal channels on other columns, bins, rows or persons are others."""
    bins = [setting.bins.get(column) for column in setting.public]
    said = repr((setting.public, bins, setting.person, setting.missing, mechanism.channel.shape))
    held = hashlib.sha256(said.encode() + mechanism.p_x.tobytes() + entries_of(mechanism.channel).tobytes())
    return held.hexdigest()[:16]

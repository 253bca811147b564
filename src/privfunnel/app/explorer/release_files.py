"""The released tables of a chosen point: all of them written from one draw, previewed, and audited."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from privfunnel import audit, release
from privfunnel.audit.effort import EffortKeywords
from privfunnel.data.engines import ReadOptions
from privfunnel.errors import GuaranteeWarning, InvalidInputError
from privfunnel.infra.storage import AnyPath, Document
from privfunnel.release import order
from privfunnel.release.candidates import PARTS, Candidates, candidates
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.options import DrawKeywords
from privfunnel.release.publication import Policy
from privfunnel.release.records import RecordAlphabet
from privfunnel.release.weakening import warn_of_decoys

#: File to the form it holds; decoys only where there are lists of candidates that somebody reads.
FILES = {"release.csv": "records", "release.parquet": "records", "symbols.csv": "symbols"}
DECOY_FILES = {"decoys.csv": "decoys", "decoys.parquet": "decoys"}
#: The file of each form that is audited.
AUDITED = {"records": "release.csv", "decoys": "decoys.csv", "symbols": "symbols.csv"}
#: Resampled tables, permutations and rows of the attackers of an audit: somebody is waiting.
EFFORT: EffortKeywords = {"bootstrap": 40, "permutations": 40, "attacker_rows": 5_000}


class Lists(NamedTuple):
    """The candidates of every released symbol, and the records that they are."""

    records: RecordAlphabet
    candidates: Candidates

    def of(self, y: int) -> list[Document]:
        """The candidates of a symbol, the heaviest first: values as they are written, and weights."""
        held = range(self.candidates.start[y], self.candidates.start[y + 1])
        written = self.records.written
        return [
            {
                "weight": int(self.candidates.parts[i]) / PARTS,
                "values": [
                    w.texts[code]
                    for w, code in zip(written, self.records.codes[self.candidates.record[i]], strict=True)
                ],
            }
            for i in sorted(held, key=lambda i: -self.candidates.parts[i])
        ]


def lists_of(mechanism: Mechanism) -> Lists | None:
    """The lists of candidates of a mechanism; None where it cannot be released as decoys."""
    try:
        return required_lists(mechanism)
    except InvalidInputError:
        return None


def required_lists(mechanism: Mechanism) -> Lists:
    """The lists of candidates of a mechanism.

    Raises:
        InvalidInputError: It cannot be released as decoys: they would be too long, or its outputs are records.
    """
    records = RecordAlphabet.of(mechanism)
    return Lists(records, candidates(mechanism, records))


def files(lists: Lists | None) -> dict[str, str]:
    """The files that are written of a mechanism with these lists of candidates, each with its form."""
    return FILES | (DECOY_FILES if lists is not None else {})


def told_by_decoys(mechanism: Mechanism) -> list[str]:
    """Say whom candidates and weights tell of, where there is somebody."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GuaranteeWarning)
        warn_of_decoys(mechanism, Policy(), stacklevel=1)
    said = (str(each.message) for each in caught)
    return [f"{text[0].upper()}{text[1:]}." for text in said]


def write(
    source: str,
    mechanism: Mechanism,
    targets: Mapping[Path, str],
    read: ReadOptions | None = None,
    draws: DrawKeywords | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write the files of a mechanism: row i is the same release in each of them.

    Args:
        source: The table.
        mechanism: The mechanism.
        targets: The files, each with its form: those of :func:`files`, in a folder.
        read: How the table is read.
        draws: How rows are drawn: key file, series and column of sticky draws, and who enters the release.
        progress: Called with the number of rows that are written.

    Raises:
        InvalidInputError: The table does not fit the mechanism, or a file cannot be written; none is left behind.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "decoys name combinations", GuaranteeWarning)  # the page says it
        named: dict[AnyPath, str] = dict(targets.items())
        release.write_all(source, mechanism, named, force=True, read=read, progress=progress, **(draws or {}))


def audited(
    source: str, mechanism: Mechanism, folder: Path, form: str, read: ReadOptions | None = None
) -> Document:
    """Audit the file of a form that :func:`write` has written: whether every check passed, and the findings in words.

    Raises:
        InvalidInputError: The file does not belong to the table.
    """
    rows = order.default_path(folder / next(iter(FILES)))
    found = audit.release(
        source, folder / AUDITED[form], mechanism=mechanism, order=rows, read=read, **EFFORT
    )
    return {"passed": found.passed, "rows": found.rows, "words": found.words()}

"""The released tables of a chosen point: all of them written from one draw."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from privfunnel.engines import open_table
from privfunnel.mechanism import Mechanism
from privfunnel.release import BATCH_ROWS, DEFAULT_NAME
from privfunnel.release.output import Output
from privfunnel.release.randomness import secure
from privfunnel.release.sampler import Sampler, Tally
from privfunnel.release.writer import BatchWriter, atomic

RECORDS = ("release.csv", "release.parquet")
SYMBOLS = "symbols.csv"
FILES = (*RECORDS, SYMBOLS)


def write(source: str, mechanism: Mechanism, folder: Path) -> None:
    """Draw y once for every row and a record once for every y, and write both in all their formats.

    Whoever holds two independent draws of the same rows knows more than the promise says, so the files share one:
    line i is the same release in each of them. Rows go through in batches, at bounded memory.

    Args:
        source: Path of the table.
        mechanism: The mechanism.
        folder: Where the files of :data:`FILES` go; none is left behind when one cannot be written.

    Raises:
        InvalidInputError: The table does not fit the mechanism, or a file cannot be written.
    """
    outputs = {form: Output(mechanism, form, DEFAULT_NAME) for form in ("symbols", "records")}
    forms = {name: "records" if name in RECORDS else "symbols" for name in FILES}
    sampler, tally = Sampler(mechanism, "error"), Tally()
    with ExitStack() as stack:
        table = stack.enter_context(open_table(source))
        table.require(mechanism.public_names)
        parts = {name: stack.enter_context(atomic(folder / name, force=True)) for name in FILES}
        with ExitStack() as open_files:
            writers = {
                name: open_files.enter_context(
                    BatchWriter(folder / name, parts[name], outputs[form].fields(), outputs[form].texts())
                )
                for name, form in forms.items()
            }
            for batch in table.batches(list(mechanism.public_names), BATCH_ROWS):
                y, _ = sampler.draw(batch, secure, tally)
                columns = {form: output.arrays(y, secure) for form, output in outputs.items()}
                for name, form in forms.items():
                    writers[name].write(columns[form])

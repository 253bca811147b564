"""A channel from records to records as a transition matrix, in the form that sdcMicro's ``pram`` takes."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import numpy as np

from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import PRIVATE, AnyPath, write_text
from privfunnel.measures import Array

if TYPE_CHECKING:
    from privfunnel.solving.solution import Solution


def transition_matrix(solution: Solution) -> tuple[tuple[str, ...], Array]:
    """Names of the records, and p(y|x), shape (M, M): a row an original record, a column a released one, rows sum to 1.

    Raises:
        InvalidInputError: The outputs are no records.
    """
    if solution.costs is None:
        raise InvalidInputError("the outputs are no records: a transition matrix is of a release with costs=")
    if solution.outputs is None:
        n_x, n_y = solution.costs.matrix.shape
        raise InvalidInputError(
            f"the channel has {n_y} outputs for {n_x} records: a transition matrix needs costs with as many outputs"
        )
    return solution.problem.x_labels, np.asarray(solution.channel)


def write_transition_matrix(solution: Solution, path: AnyPath) -> None:
    """Write the transition matrix as CSV, for the user alone.

    Names of the released records are in the header, those of the original ones in the first column.
    """
    names, matrix = transition_matrix(solution)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["", *names])
    for name, row in zip(names, matrix.tolist(), strict=True):
        writer.writerow([name, *(repr(p) for p in row)])
    write_text(path, text.getvalue(), mode=PRIVATE)

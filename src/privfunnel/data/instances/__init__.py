"""Named problems that come with the package, ready to load, offline: the paper's experiments, and one with a task.

    >>> from privfunnel import instances
    >>> instances.names()
    ('synthetic-uniform', 'synthetic-skewed', 'heart-failure', 'census-income', 'census-task')
    >>> instances.load("heart-failure").p_sx.shape
    (4, 16)

The real ones are count tables derived from public files by ``scripts/derive_instances.py``; each instance carries
its citation, its licence and what is known about its curve (:func:`describe`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np

from privfunnel.data.instances.bands import Bands, equal_width
from privfunnel.data.instances.catalogue import CATALOGUE, Instance, KnownAnswer, KnownUtility
from privfunnel.errors import InvalidInputError
from privfunnel.model.problem import Problem

__all__ = ["Instance", "KnownAnswer", "KnownUtility", "describe", "equal_width", "load", "names"]

#: The two readings of "add a perturbation to each entry": before normalising (to the counts) or after.
PERTURBATIONS = ("probabilities", "counts")


def names(*, task: bool | None = None) -> tuple[str, ...]:
    """Names of the packaged instances: those of the paper in its order, then the one with a task.

    Args:
        task: Only those with a task, or, if False, only those without; all by default.
    """
    return tuple(name for name, each in CATALOGUE.items() if task is None or (each.task is not None) == task)


def describe(name: str) -> Instance:
    """What is known of an instance: title, columns, citation, licence, known answers.

    Raises:
        InvalidInputError: There is no such instance; the message lists those there are.
    """
    try:
        return CATALOGUE[name]
    except KeyError:
        close = get_close_matches(name, CATALOGUE, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(CATALOGUE)}"
        raise InvalidInputError(f"there is no instance {name!r}: {hint}") from None


def load(
    name: str,
    *,
    perturbation: str | None = None,
    amount: float = 1e-3,
    bands: int | Sequence[tuple[int, int]] | None = None,
) -> Problem:
    """Load an instance as a :class:`~privfunnel.model.problem.Problem`.

    Args:
        name: One of :func:`names`.
        perturbation: ``None`` for the table as it is; ``"probabilities"`` to add ``amount`` to every entry of p(s, x)
            and normalise again; ``"counts"`` to add it to every count first. The paper's "perturbation of 1e-3 to
            each entry" may be read either way, and on a large table the readings differ a lot.
        amount: The perturbation, positive.
        bands: Age bands of ``census-income``: a number of equal-width bands over 17–90, or inclusive
            ``(first, last)`` pairs that cover 17–90 without gap or overlap. Five equal-width bands by default.

    Raises:
        InvalidInputError: Unknown name, or an option that does not fit.
    """
    instance = describe(name)
    if bands is not None and not instance.banded:
        raise InvalidInputError(
            f"{name!r} has no age bands: leave the option bands out, or load 'census-income'"
        )
    table, s_labels, x_labels = instance.table(
        Bands.of(5 if bands is None else bands) if instance.banded else None
    )
    columns = instance.columns(s_labels, x_labels)
    if perturbation is None:
        return Problem(table, s_labels, x_labels, **columns, **instance.tasks())
    if instance.task is not None:
        raise InvalidInputError(
            f"{name!r} has a task, whose table is not perturbed: leave the option perturbation out, or load "
            "'census-income'"
        )
    if perturbation not in PERTURBATIONS:
        raise InvalidInputError(
            f"perturbation {perturbation!r} is not known: use None, {' or '.join(map(repr, PERTURBATIONS))}"
        )
    if not (math.isfinite(amount) and amount > 0.0):
        raise InvalidInputError(
            f"amount = {amount!r} is not a perturbation: give a positive number such as 1e-3"
        )
    if perturbation == "probabilities":
        table = table / table.sum()
    table = np.asarray(table + amount)
    return Problem(table / table.sum(), s_labels, x_labels, **columns)

"""Exact lumping where others than one who knows nothing are guarded against: classes that all of them see alike.

Public symbols with the same p(s|x) of which every attacker knows the same form one class T, inside one stratum of the
published columns. Nothing is lost by solving on classes. A release of X has T-posteriors W = p(t|y) that are allowed
where its own are, since guarantees are about p(s|y), and leak the same to every attacker; and I(X;Y) ≤ I(T;Y) + H(X|T),
nats. Conversely a release of T becomes one of X that discloses H(X|T) more and leaks no more: see
:mod:`privfunnel.model.equal_symbols`. A cap on p(x|y), such as ``k=5`` has, is of X and not of T: with one there are no
classes.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array, Channel
from privfunnel.model import channels
from privfunnel.model.attackers import Attacker
from privfunnel.model.coupling import Index
from privfunnel.model.equal_symbols import Lumping, classes_of, lumping_of, numbered, singletons
from privfunnel.model.problem import Problem
from privfunnel.model.threat import Threat

#: Public symbols beyond which probabilities that are not counted are equal where they are within rounding.
ROUNDED_BEYOND = 5000


def guarded_lumping(problem: Problem, threat: Threat, lump: bool | None = None) -> Lumping:
    """The classes that a guarded search gets: every symbol its own where there are no counts, or a cap is asked for.

    Args:
        problem: The problem.
        threat: Attackers, published columns and guarantees.
        lump: False for every symbol; classes otherwise, on small tables too, where they are quicker to search.
    """
    if lump is False or _capped(problem, threat):
        return singletons(problem)
    if problem.counts is not None:
        return Lumping(problem, numbered(_keys(classes_of(problem.counts), threat)))
    # Probabilities are equal within rounding only, which a multiplier of a constraint may magnify: classes of them are
    # for tables, such as score classes make, that would not be searched otherwise, and without a proof.
    if problem.n_x <= ROUNDED_BEYOND:
        return singletons(problem)
    return Lumping(problem, numbered(_keys(lumping_of(problem).classes, threat)))


def checked_lumping(problem: Problem, threat: Threat, cells: NDArray[np.int32]) -> Lumping:
    """The classes ``cells``, (M,), after checking from the whole table that they lose nothing.

    Raises:
        InvalidInputError: They are no classes of this problem and threat.
    """
    counts = problem.counts
    if counts is None or cells.shape != (problem.n_x,) or _capped(problem, threat):
        raise InvalidInputError("its classes do not fit the table or the guarantees")
    whole = cells.astype(np.intp)
    numbers = np.unique(whole)  # how many there are bounds the work, not how large a forged one is
    if not np.array_equal(numbers, np.arange(numbers.size)):
        raise InvalidInputError("its classes are not numbered from 0 on")
    own = numbered(_keys(classes_of(counts), threat))
    if numbered(np.stack([whole, own])).max() != whole.max():
        raise InvalidInputError(
            "its classes hold symbols of different p(s|x), or of which attackers know different things"
        )
    return Lumping(problem, whole)


def threat_to(lumping: Lumping, threat: Threat) -> Threat:
    """What ``threat`` is to the classes: their attackers know a value of each class."""
    if lumping.trivial:
        return threat
    first = np.unique(lumping.classes, return_index=True)[1]
    seen = {each.name: Attacker(each.name, each.values[first]) for each in threat.attackers}
    shown = threat.published
    published = None if shown is None else seen.get(shown.name, Attacker(shown.name, shown.values[first]))
    return dataclasses.replace(threat, attackers=tuple(seen.values()), published=published)


def class_posteriors(lumping: Lumping, channel: Channel) -> Array:
    """p(t|y) of the outputs of a channel p(y|x), (M, N), shape (n, C): those that tell the same of T are one."""
    problem, symbols = lumping.problem, np.arange(lumping.problem.n_x)
    member = sparse.csr_array((np.ones(symbols.size), (lumping.classes, symbols)))
    p_ty = member @ channels.joint(problem.p_x, channel)
    table = np.asarray(p_ty.toarray() if channels.is_sparse(p_ty) else p_ty).T
    made = table[table.sum(axis=1) > 0.0]
    made = made / made.sum(axis=1, keepdims=True)
    # Posteriors of classes that agree to so many decimals are one.
    return np.asarray(made[np.unique(made.round(12), axis=0, return_index=True)[1]])


def _capped(problem: Problem, threat: Threat) -> bool:
    """Whether a guarantee is about single public symbols."""
    return any(each.caps(problem) is not None for each in threat.guarantees)


def _keys(alike: Index, threat: Threat) -> NDArray[np.int64]:
    """A column for each public symbol, (1 + attackers, M), from its class to who knows nothing: equal in one class."""
    shown = () if threat.published is None else (threat.published,)
    known = [each.values for each in (*threat.attackers, *shown)]
    return np.stack([alike, *known]).astype(np.int64)

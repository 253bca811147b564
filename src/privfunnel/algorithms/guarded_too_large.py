"""Guarded releases of tables too large for a search, which holds M posteriors of M entries.

What is free to who knows nothing is released, or groups of public symbols where guarantees ask for many behind an
output, time-shared with X itself or with nothing as far as what is asked for takes it. No bound comes with it.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from privfunnel.algorithms import perfect
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import SolverError
from privfunnel.measures import Channel
from privfunnel.model import channels
from privfunnel.model.equal_symbols import ClassChannel, lumping_of
from privfunnel.model.problem import Problem
from privfunnel.model.question import Question
from privfunnel.model.threat import Threat

#: Beyond this many public symbols, or classes of them, there is no search.
MOST_SEARCHED = 5000


def without_search(question: Question, seconds: float, seed: int) -> Answer:
    """What is free to who knows nothing, with as much of X itself, or of nothing, as what is asked for takes.

    Args:
        question: The question.
        seconds: The time limit.
        seed: Fixes all randomness.

    Raises:
        SolverError: The guarantees do not allow X itself, and what is free discloses less.
    """
    problem, threat = question.problem, question.guards
    base, whole = threat.nothing(problem), channels.identity(problem.n_x)
    if threat.published is None:
        lumping = lumping_of(problem)
        # Half of the time: the rest is for the channel and for judging it.
        free = perfect.free_disclosure(lumping.lumped, seed=seed, seconds=0.5 * seconds, nodes=0)
        private = ClassChannel(lumping, free.channel).table
        for each in (private, _crowds(problem, threat)):
            if each is not None and threat.allow(problem, each):
                base = each
                break
    if not question.names_place:
        channel = _within(question, base)
    else:
        disclosure = question.disclosure
        have = problem.evaluate(base).disclosure
        missing, rest = max(disclosure - have, 0.0), problem.disclosure_ceiling - have
        more = min(missing / rest, 1.0) if missing > 0.0 else 0.0
        if more > 0.0 and not threat.allow(problem, whole):
            raise SolverError(
                f"disclosure={disclosure:.9g} nats was not reached within the guarantees, {have:.9g} nats were, and "
                f"{problem.n_x} classes of public symbols are too many for a search: lower it, or take coarser columns"
            )
        channel = channels.mixed_with_all(base, more) if more > 0.0 else base
    message = "the table is too large for a search in this time"
    return Answer(channel=channel, status=Status.TIME_LIMIT, message=message)


def _crowds(problem: Problem, threat: Threat) -> Channel | None:
    """Groups of public symbols as large as the guarantees ask for, each an output; None where they do not ask."""
    caps = [each for each in (one.caps(problem) for one in threat.guarantees) if each is not None]
    if not caps:
        return None
    most = np.minimum.reduce(caps)
    least = float((problem.p_x / most)[most < 1.0].max(initial=0.0))
    group, number, held = np.zeros(problem.n_x, dtype=np.intp), 0, 0.0
    for x in np.argsort(problem.p_x < least, kind="stable"):  # those that are large enough stay alone
        group[x] = number
        held += float(problem.p_x[x])
        if held >= least:
            number, held = number + 1, 0.0
    group = np.minimum(group, max(number - 1, 0))  # what is left at the end goes with the last
    entries = (np.ones(problem.n_x), (np.arange(problem.n_x), group))
    channel: Channel = channels.as_held(sparse.csc_array(entries, shape=(problem.n_x, int(group.max()) + 1)))
    return channel


def _within(question: Question, channel: Channel) -> Channel:
    """A channel within what may leak: time-shared with nothing where it leaks more."""
    problem, guards, values = question.problem, question.guards, question.values(channel)
    if question.within(values):
        return channel
    nothing = guards.nothing(problem)
    if guards.attributes:
        return nothing
    least, most, spent = (guards.measure.average(each) for each in (0.0, values.leakage, question.budget))
    share = (spent - least) / (most - least)
    shared: Channel = channels.time_share([channel, nothing], [share, 1.0 - share])
    return shared

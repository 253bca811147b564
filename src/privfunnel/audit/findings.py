"""What a joint table of private and released symbols says: about attributes, in single symbols, to an attacker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import sparse

from privfunnel import measures
from privfunnel.audit import attacker
from privfunnel.audit.alignment import Sample
from privfunnel.audit.attacker import Attack
from privfunnel.audit.estimates import (
    Information,
    Interval,
    Statistic,
    intervals,
    local_information_privacy,
    max_log_lift,
    spread,
)
from privfunnel.audit.persons import PersonRows, share_by_person
from privfunnel.audit.result import Attribute, Preserved, Symbol
from privfunnel.data.engines import Alphabet
from privfunnel.data.engines.categories import Codes
from privfunnel.measures import Array, Channel
from privfunnel.release.fidelity import Fidelity, measured
from privfunnel.release.guesses import blind_accuracy
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.records import RecordAlphabet

#: Symbols of which something is said one by one.
MOST_SYMBOLS = 2000

#: A table with the same table from resampled rows.
Resampled = tuple[Array, Sequence[Array]]

WORST: dict[str, Statistic] = {
    "maximal": measures.maximal_leakage,
    "lift": max_log_lift,
    "privacy": local_information_privacy,
}
GUESSES: dict[str, Statistic] = {"before": blind_accuracy, "after": measures.guessing_accuracy}


def split(private: Alphabet, joint: Resampled) -> dict[str, Resampled]:
    """Tables of each single attribute, and of all together, with their resampled ones."""
    whole = private.collapse(joint[0])
    drawn = [private.collapse(draw) for draw in joint[1]]
    return {name: (table, [each[name] for each in drawn]) for name, table in whole.items()}


def attributes(
    leakage: Mapping[str, Information],
    joint: Mapping[str, Resampled],
    original: Mapping[str, Resampled],
    attacks: Mapping[str, Attack],
) -> tuple[Attribute, ...]:
    """One entry a private attribute.

    Args:
        leakage: Estimated I(attribute; Y) by name.
        joint: p(attribute, y), for the best guess and the worst case: the mechanism's own where it is known.
        original: p(attribute, x), where the original is at hand.
        attacks: Trained attackers.
    """
    found = []
    for name, information in leakage.items():
        guess, extreme = intervals(*joint[name], GUESSES), intervals(*joint[name], WORST)
        from_x = intervals(*original[name], GUESSES)["after"] if name in original else None
        found.append(
            Attribute(
                name=name,
                leakage=information,
                before=guess["before"],
                after=guess["after"],
                original=from_x,
                maximal_leakage=extreme["maximal"],
                max_log_lift=extreme["lift"],
                local_information_privacy=extreme["privacy"],
                attack=attacks.get(name),
            )
        )
    return tuple(found)


def symbols(joint: Resampled, y_labels: Sequence[str], s_labels: Sequence[str]) -> tuple[Symbol, ...]:
    """What each released symbol says about all private attributes together, the most telling first.

    Of very many symbols, the most telling :data:`MOST_SYMBOLS`.
    """
    p_sy, draws = joint
    value, sample = _told(p_sy), [_told(draw) for draw in draws]
    lift, p_y = measures.lift(p_sy), p_sy.sum(axis=0)
    return tuple(
        Symbol(
            label=y_labels[j],
            share=float(p_y[j]),
            information=spread(value[j], np.array([told[j] for told in sample])),
            lift=float(lift[:, j].max()),
            about=s_labels[int(lift[:, j].argmax())],
        )
        for j in np.argsort(-value, kind="stable")[:MOST_SYMBOLS].tolist()
        if p_y[j] > 0.0
    )


def _told(p_sy: Array) -> Array:
    """D(p(s|y) ‖ p(s)) of every y, in nats; 0 for one that does not occur."""
    p_y = p_sy.sum(axis=0)
    posterior = np.divide(p_sy, p_y, out=np.zeros_like(p_sy), where=p_y > 0.0)
    p_s = np.broadcast_to(p_sy.sum(axis=1, keepdims=True), p_sy.shape)
    return np.where(p_y > 0.0, measures.kl_divergence(posterior, p_s, axis=0), 0.0)


def attacks(sample: Sample, rows: int, rng: np.random.Generator) -> dict[str, Attack]:
    """One trained attacker an attribute; their combination is covered by the best guess."""
    counts, found = sample.counts, {}
    from_x = counts.table()
    for j, column in enumerate(counts.private):
        target = counts.s_codes[:, j]
        if sample.people is not None:
            found[column.name] = _attack_by_person(sample, sample.people, target, rows, rng)
            continue
        release = attacker.score(sample.sy, sample.y_alphabet.codes, target, size=rows, rng=rng)
        original = attacker.score(from_x, counts.x_codes, target, size=rows, rng=rng)
        found[column.name] = Attack.of(attacker.prior(sample.sy, target), release, original)
    return found


def _attack_by_person(
    sample: Sample, people: PersonRows, target: Codes, size: int, rng: np.random.Generator
) -> Attack:
    """An attacker trained on the rows of some persons or clusters, and tested on those of others."""
    some = people.take(people.some(size, rng))
    truth = target[some.s]
    release, original = (
        attacker.score_rows(codes[seen], truth, attacker.unordered(codes), rng, persons=some.piece)
        for codes, seen in ((sample.y_alphabet.codes, some.y), (sample.counts.x_codes, some.x))
    )
    common = np.bincount(target[people.s]).argmax()
    return Attack.of(share_by_person(target[people.s] == common, people.piece), release, original)


def preserved(public: Alphabet, p_xy: Channel) -> tuple[Preserved, ...]:
    """What survives of each public column alone: I(X_a;Y) of H(X_a), in nats.

    Args:
        public: The M public symbols.
        p_xy: p(x, y), shape (M, N), dense or sparse.
    """
    found = []
    for name, table in public.by_column(p_xy).items():
        entropy = float(measures.entropy(table.sum(axis=1)))
        found.append(Preserved(name, min(float(measures.mutual_information(table)), entropy), entropy))
    return tuple(found)


def exact(share: float) -> Interval:
    """A number that is known, not estimated."""
    return Interval(share, share, share)


def survives(mechanism: Mechanism | None, sample: Sample) -> Fidelity | None:
    """What survives in released records, numbers aside; None where the release holds none."""
    records = sample.y_alphabet
    if mechanism is None or not isinstance(records, RecordAlphabet):
        return None
    rows = sparse.coo_array(sample.xy)
    place = mechanism.x_alphabet.places(sample.counts.x_alphabet)[rows.row]
    known, after = place >= 0, np.zeros(len(records))
    np.add.at(after, rows.col, rows.data)
    n = rows.data[known]
    before = np.bincount(place[known], weights=n, minlength=len(mechanism.p_x)).astype(np.float64)
    own, new = records.of_x[place[known]], rows.col[known]
    same = [float(n[column[own] == column[new]].sum()) for column in records.codes.T]
    return measured(records, before, after, np.array(same))

"""A release as the report describes it, whether it comes from a solution or from a mechanism's file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from privfunnel.data.engines import Alphabet, Column, Cut, Part, Top
from privfunnel.data.engines.categories import Codes
from privfunnel.measures import Array, Channel, guessing_accuracy, mutual_information
from privfunnel.model.channels import joint
from privfunnel.model.problem import Point
from privfunnel.release.guesses import Exposure, exposures
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.publication import Policy, published_codes
from privfunnel.release.records import RecordAlphabet
from privfunnel.report.aims import Aim, TaskAim, aim_of_mechanism, aim_of_solution
from privfunnel.report.axes import Axis
from privfunnel.report.designed import Designed
from privfunnel.report.meaning import Meaning, explain, meaning_of
from privfunnel.report.rounding import Rounding
from privfunnel.solving.solution import Solution

#: Cells of the largest channel that is drawn.
DRAWN = 60_000


@dataclass(frozen=True, eq=False)
class Described:
    """What a report says of one release; nats.

    Attributes:
        private: The private symbols; ``public`` the public ones.
        rows: Rows behind the table, or persons where they are known; None where neither is.
        disclosure: I(X;Y); ``disclosure_ceiling`` H(X).
        leakage: I(S;Y); ``lower_bound`` what is proved of it, 0 where it was guarded; ``leakage_ceiling`` I(S;X).
        meaning: What it does, on average and at worst.
        p_x: p(x), shape (M,).
        p_sy: p(s, y), shape (K, N).
        channel: p(y|x), shape (M, N), dense or sparse.
        designed: What it was designed against beyond an attacker who knows nothing; None for nothing.
        symbols: Disclosure and leakage of the mechanism's symbols where records are released, which are drawn anew from
            them: all of the above is then about records, but for ``lower_bound`` and ``channel``; None otherwise.
        aim: What it was designed to keep where that is not disclosure: a task, or records.
        outputs: The public symbol that each output is, shape (N,), where records are released for records.
        classes: How many score classes p(s|x) was taken from; 0 where it was counted.
        asked: The disclosure that was asked for, in nats; None where something else was.
    """

    private: Axis
    public: Axis
    rows: float | None
    disclosure: float
    disclosure_ceiling: float
    leakage: float
    leakage_ceiling: float
    lower_bound: float
    meaning: Meaning
    p_x: Array
    p_sy: Array
    channel: Channel
    symbols: Point | None = None
    designed: Designed | None = None
    aim: Aim | None = None
    outputs: Codes | None = None
    classes: int = 0
    asked: float | None = None

    @classmethod
    def of_solution(cls, solution: Solution, private: Axis | None, public: Axis | None) -> Described:
        """A solution; the symbols are read from the labels where no axes are given."""
        problem = solution.problem
        private = private or Axis.parse(problem.s_labels, "private")
        public = public or Axis.parse(problem.x_labels, "public")
        meaning = explain(problem, solution.channel, private, public)
        plain = solution.guards.plain
        return cls(
            private=private,
            public=public,
            rows=problem.n,
            disclosure=solution.disclosure,
            disclosure_ceiling=problem.disclosure_ceiling,
            leakage=solution.leakage if plain else meaning.leakage,
            leakage_ceiling=problem.leakage_ceiling,
            lower_bound=solution.lower_bound if plain else 0.0,
            meaning=meaning,
            p_x=problem.p_x,
            p_sy=problem.p_sx @ solution.channel,
            channel=solution.channel,
            designed=Designed.of_solution(solution),
            aim=aim_of_solution(solution, public.alphabet),
            outputs=solution.outputs,
            asked=solution.requested,
        )

    @classmethod
    def of_mechanism(cls, mechanism: Mechanism) -> Described:
        """A mechanism, on the table it was designed on."""
        private, public = Axis.of(mechanism.s_alphabet), Axis.of(mechanism.x_alphabet)
        rows = mechanism.behind or None
        return cls(
            private=private,
            public=public,
            rows=rows,
            disclosure=mechanism.disclosure,
            disclosure_ceiling=float(mechanism.promise["disclosure_ceiling"]),
            leakage=mechanism.leakage,
            leakage_ceiling=float(mechanism.promise["leakage_ceiling"]),
            lower_bound=float(mechanism.promise["lower_bound"]),
            meaning=meaning_of(
                Point(mechanism.disclosure, mechanism.leakage),
                mechanism.p_sy,
                mechanism.p_xy,
                mechanism.guesses,
                public,
            ),
            p_x=mechanism.p_x,
            p_sy=mechanism.p_sy,
            channel=mechanism.channel,
            designed=Designed.of_mechanism(mechanism),
            aim=aim_of_mechanism(mechanism),
            outputs=mechanism.outputs,
            classes=0 if mechanism.scores is None else mechanism.scores.n_classes,
            asked=mechanism.promise.get("requested"),
        )

    @classmethod
    def of_records(cls, mechanism: Mechanism, policy: Policy) -> Described:
        """A release of records, which are drawn from the mechanism's symbols: they keep less, and leak no more."""
        symbols = cls.of_mechanism(mechanism)
        given_y = RecordAlphabet.of(mechanism, policy).given_y(mechanism)
        p_xy = joint(mechanism.p_x, mechanism.channel @ given_y)
        p_sy = np.asarray(mechanism.p_sy @ given_y)
        point = Point(float(mutual_information(p_xy)), float(mutual_information(p_sy)))
        tables = mechanism.s_alphabet.collapse(p_sy)
        guesses = tuple(
            replace(
                each, after=min(max(float(guessing_accuracy(tables[each.name])), each.before), each.after)
            )
            if each.name in tables
            else each
            for each in mechanism.guesses
        )
        return replace(
            symbols,
            disclosure=point.disclosure,
            leakage=point.leakage,
            meaning=meaning_of(point, p_sy, p_xy, guesses, symbols.public),
            p_sy=p_sy,
            # Records that are released for records are symbols themselves, but for rare values that are not written.
            symbols=None if mechanism.outputs is not None else Point(mechanism.disclosure, mechanism.leakage),
            lower_bound=symbols.lower_bound
            if mechanism.outputs is None
            else min(symbols.lower_bound, point.leakage),
        )

    @property
    def tasks(self) -> tuple[str, ...]:
        """The columns that it was designed for, where it was designed for any."""
        return self.aim.names if isinstance(self.aim, TaskAim) else ()

    @property
    def rivals(self) -> str:
        """The releases none of which leaks less than the proved bound, as they follow the word "no"."""
        if self.aim is not None:
            return self.aim.rivals
        much = "as much" if self.symbols is None else "as much as the mechanism's symbols"
        return f"release that keeps {much}"

    @property
    def written(self) -> Array:
        """p(x'|x) of the records that are written, shape (M, M), where the channel is an array."""
        channel = np.asarray(self.channel)
        if self.outputs is not None:
            table = np.zeros((len(self.p_x), len(self.p_x)))
            np.add.at(table.T, self.outputs, channel.T)
            return table
        p_xy = channel * self.p_x[:, None]
        p_y = p_xy.sum(axis=0)
        p_x_given_y = np.divide(p_xy, p_y, out=np.zeros_like(p_xy), where=p_y > 0.0)
        return np.asarray(channel @ p_x_given_y.T)

    @cached_property
    def exposed(self) -> tuple[Exposure, ...]:
        """Whom it exposes most."""
        return exposures(self.private.alphabet, self.p_sy, round(self.rows or 0.0))

    @property
    def drawable(self) -> bool:
        """Whether the channel is small enough to be drawn."""
        return isinstance(self.channel, np.ndarray) and self.channel.size <= DRAWN

    @property
    def promised_kept(self) -> float:
        """I(X;Y)/H(X)."""
        return self.disclosure / self.disclosure_ceiling if self.disclosure_ceiling > 0.0 else 1.0

    @property
    def promised_leaked(self) -> float:
        """I(S;Y)/I(S;X)."""
        return self.leakage / self.leakage_ceiling if self.leakage_ceiling > 0.0 else 0.0


def published_axis(axis: Axis, p: Array, say: Rounding) -> Axis:
    """The symbols, of probabilities ``p``, as they may be published: no ends of the data, no rare value."""
    written = say.policy.columns(axis.alphabet, p, say.rows or 0.0)
    codes = published_codes(written, axis.alphabet.codes)
    columns = tuple(w.column for w in written)
    return Axis(Alphabet(columns, codes), tuple(w.texts for w in written))


def how_counted(column: Column) -> str:
    """How the values of a column became categories, in words."""
    null = " and one for missing values" if column.null_code >= 0 and column.bins is not None else ""
    if isinstance(column.bins, Cut):
        of = f" of the {column.bins.part.partition('@')[0]}" if column.bins.part else ""
        return f"{column.bins.size} intervals{of}{null}"
    if isinstance(column.bins, Part):
        return f"its {column.bins.rule}{null}"
    if isinstance(column.bins, Top):
        return f"its {len(column.bins.kept)} most frequent values, the others grouped{null}"
    return f"its {column.n_values} values" if column.n_values > 1 else "one value"

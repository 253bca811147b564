"""What an audit found: numbers, with intervals where they are estimates; its words are in :mod:`.words`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from privfunnel.audit import words
from privfunnel.audit.attacker import Attack
from privfunnel.audit.estimates import Information, Interval, plain
from privfunnel.audit.extra_columns import Further
from privfunnel.audit.informed import Informed
from privfunnel.audit.models import Model
from privfunnel.audit.persons import Clusters
from privfunnel.audit.population import Population
from privfunnel.audit.promise import Draws, Recount
from privfunnel.audit.review_board import Board, Question, questions
from privfunnel.audit.voting import Persons
from privfunnel.data.population.views import View
from privfunnel.infra import cards
from privfunnel.infra.storage import Document, heading
from privfunnel.neighbours.alternatives import Alternative
from privfunnel.release.fidelity import Fidelity
from privfunnel.release.guesses import Exposure
from privfunnel.release.ledger import Together
from privfunnel.release.options import DEFAULT_THRESHOLD

SCHEMA = "privfunnel/audit"

LIMITS = (
    "Leakage is mutual information, an average over rows: single rows can lose more; see the worst-case measures.",
    "This is not differential privacy: it protects the named private columns under the counted distribution, not the "
    "presence of a row.",
    "Side information that an attacker holds besides the release is outside the guarantee, and so are kept columns; "
    "what these add is measured where the released file is at hand, and what public columns add that are known already "
    "where the original is.",
    "Two draws for the same rows tell more than one, even where one tells nothing; draw once.",
    "Every row counts as a person of its own: where people have several rows, attackers can combine them, and "
    "intervals and bounds, which take rows as independent, do not hold; say who a row is about (--person COLUMN).",
)
#: In place of the last of them where it is known whom the rows are about.
PERSONS = (
    "Intervals and nulls take the rows of a person as one piece of evidence, and bounds for the population one row of "
    "each person; leakage is that of one row, and who can tell which rows are one person's may add them up."
)
#: In place of both where it is known which rows were sampled together: the first without persons, the second with them.
ALONE = (
    "Every row counts as a person of its own: where people have several rows, attackers can combine them; say who a "
    "row is about (--person COLUMN)."
)
ADDED_UP = "Leakage is that of one row, and who can tell which rows are one person's may add them up."
CLUSTERS = (
    "Intervals and nulls take the rows of a cluster as one piece of evidence, and bounds for the population one row of "
    "each cluster: they are about somebody drawn at random from a cluster drawn at random, who is not anybody drawn at "
    "random where large clusters differ from small ones."
)


@dataclass(frozen=True)
class Attribute:
    """What the release says about one private attribute, or about all of them together.

    Attributes:
        name: The column, or all names joined by "and".
        leakage: I(attribute; Y) in nats.
        before: How often the best guess is right without the release; ``after`` with it, knowing all frequencies;
            ``original`` from the original public columns.
        maximal_leakage: log Σ_y max p(y|s), nats.
        max_log_lift: max log p(s|y)/p(s), nats; ``local_information_privacy`` the largest absolute value.
        attack: The trained attacker, where one was trained.
    """

    name: str
    leakage: Information
    before: Interval
    after: Interval
    original: Interval | None
    maximal_leakage: Interval
    max_log_lift: Interval
    local_information_privacy: Interval
    attack: Attack | None = None


@dataclass(frozen=True)
class Symbol:
    """What one released symbol says about the private attributes together.

    Attributes:
        label: Its name.
        share: How often it is released.
        information: D(p(s|y) ‖ p(s)) in nats.
        lift: The largest p(s|y)/p(s), ``about`` the private symbol it belongs to.
    """

    label: str
    share: float
    information: Interval
    lift: float
    about: str


@dataclass(frozen=True)
class Preserved:
    """What survives of one public column alone: ``kept`` = I(X_a;Y) of ``entropy`` = H(X_a), in nats."""

    name: str
    kept: float
    entropy: float

    @property
    def share(self) -> float:
        """Share of the column's entropy; 1 for a constant, which needs none."""
        return self.kept / self.entropy if self.entropy > 0.0 else 1.0


@dataclass(frozen=True)
class Holdout:
    """How a promise made on one part of the rows fared on the others; nats.

    Attributes:
        design_rows: Rows the mechanism was designed on; ``held_out_rows`` the others.
        promised_disclosure: On the design rows; ``promised_leakage`` likewise.
        population: What the held-out rows prove about the population.
        new_rows: Held-out rows whose public values the design rows do not have; they are drawn from p(y).
        design_persons: Persons whom the design rows are about, where a column says that; None otherwise. Of each of the
            other persons one row is held out.
        design_clusters: Clusters that the design rows were sampled in, likewise; one row of each other is held out.
    """

    design_rows: int
    held_out_rows: int
    promised_disclosure: float
    promised_leakage: float
    population: Population
    new_rows: int
    design_persons: int | None = None
    design_clusters: int | None = None

    @property
    def leakage(self) -> Interval:
        """I(S;Y) of the held-out rows as released, between the proved ends for the population."""
        return self.population.leakage

    @property
    def verdict(self) -> str:
        """``"refuted"``, ``"proved"``, or ``"not refuted"`` where the rows decide neither."""
        if self.promised_leakage < self.leakage.low:
            return "refuted"
        return "proved" if self.leakage.high <= self.promised_leakage else "not refuted"

    @property
    def held(self) -> bool:
        """False where the promise is refuted."""
        return self.verdict != "refuted"

    def words(self) -> list[str]:
        """The findings as sentences."""
        return words.holdout(self)

    def to_dict(self) -> Document:
        """JSON-ready, in nats; infinite numbers as the text ``"inf"``."""
        return {
            "units": "nats",
            "passed": self.held,
            "verdict": self.verdict,
            "words": self.words(),
            **plain(dataclasses.asdict(self)),
        }


@dataclass(frozen=True)
class Audit:
    """An audit; amounts of information in nats.

    Attributes:
        rows: Rows it rests on.
        n_y: Number of released symbols.
        private: Names of the private columns; ``public`` of the public ones.
        disclosure: I(X;Y), ``disclosure_ceiling`` H(X), ``leakage_ceiling`` I(S;X) where the original is at hand.
        attributes: One entry a private column and, if there are several, one for all together, last.
        symbols: Released symbols, the most informative first.
        recount: The designed promise, checked; ``draws`` the released rows against fresh draws; ``holdout`` if asked.
        exact: The numbers are the mechanism's own, not estimated from released rows.
        mechanism_known: Worst-case measures and symbols are the mechanism's own, not those of the released rows.
        unmatched: Rows without a partner, where they were matched by key.
        exposures: Whom the release exposes most, one entry a private value, the largest lift first.
        columns: What survives of each public column alone.
        further: What the file's columns besides the release add; None where it has none.
        view: What the table is taken as: the population, a ``"register"``, or a ``"sample"`` from one.
        population: Bounds for the population, from rows that a design had no part in.
        instead: What dropping and coarsening public columns would keep at no more leakage.
        informed: Attackers who know one or two public columns, the one who learns most first; where the channel and
            the table are at hand.
        persons: Whom the rows are about, where a column says that.
        clusters: What the rows were sampled in, likewise.
        fidelity: What survives in released records; None where the release holds none.
        models: How well public columns are predicted from each other by who has the released records.
        board: Singling out, linkability and inference, where the mechanism is known; see :attr:`questions`.
        together: What all draws of a ledger tell together, where one was given.
        threshold: How many rows were few to the release; see :class:`~privfunnel.release.publication.Policy`.
        form: How a mechanism's release is written: ``"records"``, ``"decoys"`` or ``"symbols"``; None without one.
        limits: What this is not.
    """

    rows: int
    n_y: int
    private: tuple[str, ...]
    public: tuple[str, ...]
    disclosure: Information
    disclosure_ceiling: float
    leakage_ceiling: float | None
    attributes: tuple[Attribute, ...]
    symbols: tuple[Symbol, ...]
    recount: Recount | None = None
    draws: Draws | None = None
    holdout: Holdout | None = None
    exact: bool = False
    mechanism_known: bool = False
    unmatched: int = 0
    exposures: tuple[Exposure, ...] = ()
    columns: tuple[Preserved, ...] = ()
    further: Further | None = None
    view: View = "register"
    population: Population | None = None
    instead: tuple[Alternative, ...] = ()
    informed: tuple[Informed, ...] = ()
    persons: Persons | None = None
    clusters: Clusters | None = None
    fidelity: Fidelity | None = None
    models: tuple[Model, ...] = ()
    board: Board | None = None
    together: Together | None = None
    threshold: int = DEFAULT_THRESHOLD
    form: str | None = None
    limits: tuple[str, ...] = field(default=LIMITS)

    def __post_init__(self) -> None:
        """Say of rows of one person or cluster what is true of them."""
        if self.clusters is not None:
            first = ALONE if self.persons is None else ADDED_UP
            object.__setattr__(self, "limits", (*LIMITS[:-1], first, CLUSTERS))
        elif self.persons is not None:
            object.__setattr__(self, "limits", (*LIMITS[:-1], PERSONS))

    @property
    def leakage(self) -> Information:
        """I(S;Y) of all private attributes together, in nats."""
        return self.attributes[-1].leakage

    @property
    def passed(self) -> bool:
        """False where a check of the promise failed, the file tells more than its release, or a budget is spent."""
        return (
            (self.recount is None or self.recount.holds)
            and (self.draws is None or self.draws.agrees)
            and (self.holdout is None or self.holdout.held)
            and (self.further is None or not self.further.leaks)
            and (self.together is None or self.together.within)
        )

    @property
    def questions(self) -> tuple[Question, ...]:
        """The three questions of a review board, each with its number, its proof and what it assumes."""
        return questions(self)

    @property
    def on_design(self) -> bool:
        """Whether the rows are those that the mechanism was designed on, as far as is known."""
        return self.mechanism_known and (self.recount is None or self.recount.same_table)

    def words(self) -> list[str]:
        """The findings as sentences, most important first."""
        return words.of_audit(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict and the findings in words."""
        verdict = "no check failed" if self.passed else "A CHECK FAILED"
        people = "" if self.persons is None else f" of {self.persons.persons:,} persons"
        return cards.listed(f"Audit of {self.rows:,} rows{people}: {verdict}", [*self.words(), *self.limits])

    def to_dict(self) -> Document:
        """JSON-ready; infinite numbers as the text ``"inf"``."""
        return {
            **heading(SCHEMA),
            "units": "nats",
            "passed": self.passed,
            "words": self.words(),
            **plain(dataclasses.asdict(self)),
        }

"""The first page of a report: what a review board has to know before it signs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from privfunnel.model.problem import Point
from privfunnel.neighbours.task_alternatives import TaskAlternative
from privfunnel.report import parts, view
from privfunnel.report.aims import TaskAim
from privfunnel.report.axes import Axis
from privfunnel.report.described import Described, how_counted
from privfunnel.report.rounding import ZERO, Rounding

#: To whom the promise does not apply.
NOT_PROMISED = (
    "Whoever already knows something of a person besides the release, one of the public columns for example, may learn "
    "more than is said here.",
    "A second release about the same people, or a second draw of this one, adds to what is told; the promise is for "
    "one.",
    "The promise is an average over the people of the counted table. It is no promise to each single person, not about "
    "other people, and not differential privacy: it does not hide whether a person is in the table.",
    "Columns that are published beside the released ones are outside it.",
)

#: Said in place of numbers about few rows.
TOO_FEW = (
    "The table has too few rows for that to be told here: many rounded numbers together would give its counts away. "
    "The steward's audit has them."
)


class Instead(NamedTuple):
    """What else could be published: a name, disclosure and leakage in nats, and what is as good for a task."""

    plain: Sequence[tuple[str, float, float]]
    for_task: Sequence[TaskAlternative] = ()


def columns_section(private: Axis, public: Axis, tasks: Sequence[str] = ()) -> str:
    """Return the table of columns with their roles and how their values were counted."""
    rows = [
        (column.name, role, how_counted(column))
        for role, axis in (("private: never published", private), ("public: released", public))
        for column in axis.alphabet.columns
    ]
    rows += [
        (name, "what the release is for", "not released itself") for name in tasks if name not in public.names
    ]
    return f"<h2>The columns</h2>{parts.table('', ('column', 'role', 'counted by'), rows)}"


def board(
    release: Described, numbers: Rounding, *, form: str, instead: Instead, beyond: Sequence[str]
) -> str:
    """Return what is released and promised, to whom it does not apply, who is exposed, and what else was possible."""
    names = " and ".join(filter(None, (", ".join(release.public.names[:-1]), release.public.names[-1])))
    what = (
        f"Each row's {escape(names)} {'are' if len(release.public.names) > 1 else 'is'} replaced by "
        f"{escape(form)}, drawn at random by a fixed rule that looks at the public columns only. "
        "The private columns are not published."
    )
    designed = [] if not release.classes else [_by_classes(release.classes)]
    designed += _free_words(release, numbers)
    if release.aim is not None:
        designed.append(release.aim.words(numbers, redrawn=release.symbols is not None))
    if release.symbols is not None:
        what += f" {escape(_second_draw(release, release.symbols.disclosure, numbers))}"
    against = [] if release.designed is None else release.designed.words(release.rivals, numbers)
    if not numbers.detailed:
        return _brief(release, numbers, what, [*designed, *against[:1]])
    said = view.in_words(release.promised_kept, release.promised_leaked, release.meaning, numbers)
    both = view.column_words(release.promised_kept, release.meaning, numbers)
    promised = parts.paragraphs([_promise(release, numbers), *against, *beyond])
    return (
        f'<h2>What is released</h2><p class="lead">{escape(said)}</p><p>{what}</p>'
        f"{parts.paragraphs([*designed, *([both] if both else [])])}"
        f"{columns_section(release.private, release.public, release.tasks)}"
        f"<h2>What is promised, and to whom it does not apply</h2>{promised}"
        f"{parts.points(NOT_PROMISED)}"
        f"<h2>Who is exposed most</h2>{_exposed(release, numbers)}"
        f"<h2>What was possible instead</h2>{_instead(release, numbers, instead)}"
    )


def _free_words(release: Described, numbers: Rounding) -> list[str]:
    """That more than was asked for is free of leakage, where it is."""
    point = release.symbols or Point(release.disclosure, release.leakage)
    if release.asked is None or point.leakage > ZERO or point.disclosure <= release.asked + ZERO:
        return []
    asked, kept = (
        numbers.percent(view.share(nats, release.disclosure_ceiling, 1.0))
        for nats in (release.asked, point.disclosure)
    )
    return [
        f"More than was asked for is free: {asked} was asked for, and the mechanism's symbols keep {kept} of what the "
        "public columns say, and leak nothing."
    ]


def _by_classes(classes: int) -> str:
    """What numbers about private columns mean where p(s|x) is that of a score class."""
    return (
        f"Each combination of public values is put into one of {classes} score classes, and what is said here about "
        "the private columns takes it to have the shares of its class. As far as combinations of one class differ, and "
        "on the rows of the table they do by chance, the release tells more."
    )


def _second_draw(release: Described, disclosure: float, numbers: Rounding) -> str:
    """Why records keep less than the mechanism's symbols, which keep a disclosure in nats."""
    kept = numbers.percent(view.share(disclosure, release.disclosure_ceiling, 1.0))
    return (
        f"What is said here is about these records, which keep {numbers.percent(release.promised_kept)}: they are "
        f"drawn from the mechanism's symbols, which keep {kept} themselves."
    )


def _brief(release: Described, numbers: Rounding, what: str, designed: Sequence[str]) -> str:
    """The same of a table with few rows: what is kept and leaked, and no further number."""
    private = " and ".join(release.private.names)
    leaked = (
        "tells nothing"
        if release.leakage <= ZERO
        else f"leaks at most {numbers.bits(release.leakage, 'up')} on average"
    )
    said = (
        f"This release keeps {numbers.percent(release.promised_kept)} of what the public columns say and {leaked} "
        f"about {private}."
    )
    return (
        f'<h2>What is released</h2><p class="lead">{escape(said)}</p><p>{what}</p>{parts.paragraphs(designed)}'
        f"{columns_section(release.private, release.public, release.tasks)}"
        f"<h2>What is promised, and to whom it does not apply</h2>{parts.points(NOT_PROMISED)}"
        f"<h2>Who is exposed most</h2>{parts.paragraphs([TOO_FEW])}"
    )


def _promise(release: Described, numbers: Rounding) -> str:
    private = " and ".join(release.private.names)
    if release.leakage <= ZERO and release.classes:
        return f"By the shares of the score classes, a reader who knows nothing else learns nothing about {private}."
    if release.leakage <= ZERO:
        return (
            f"Of all the people in the table, a reader who knows nothing else learns nothing about {private}: each "
            "released value is as frequent among people of any private value."
        )
    promised = (
        f"A reader who knows nothing else learns at most {numbers.bits(release.leakage, 'up')} about {private} of a "
        f"person, on average; the public columns themselves would tell {numbers.bits(release.leakage_ceiling)}."
    )
    if numbers.information(release.lower_bound, "down") <= ZERO:
        return promised  # a bound of nothing says nothing
    least = numbers.bits(release.lower_bound, "down")
    return f"{promised} No {release.rivals} can leak less than {least}: this is proved."


def _exposed(release: Described, numbers: Rounding) -> str:
    notable = [each for each in release.exposed if each.notable]
    names = _names(release, numbers)
    told = [each for each in notable if each.value in names]
    # In the order of what is told: an order by exact numbers would say which of two rounded ones is the larger.
    told.sort(key=lambda each: (-numbers.of(each.share).share(each.after, "down"), each.value))
    rows = [
        (
            names[each.value],
            _people(each.share, numbers),
            numbers.percent(each.before),
            # What the symbols of few people say is told of nobody.
            "not told"
            if numbers.rare(each.share)
            else f"{numbers.of(each.share).percent(each.after, 'down')} or more",
            f"{numbers.share(each.auc):.2g}",
        )
        # Exposed values that are listed.
        for each in told[:5]
    ]
    words = []
    if len(told) > len(rows):
        words.append(f"{len(told) - len(rows)} further private values rise less than these.")
    if len(notable) > len(told):
        words.append(
            f"{len(notable) - len(told)} private values that fewer than {numbers.threshold} people have become "
            "likelier too; they are not named."
        )
    if not rows:
        return parts.paragraphs(
            ["For nobody does a private value that is not rare become noticeably likelier.", *words]
        )
    heads = (
        "private value",
        "#people",
        "#chance before",
        "#with the release",
        "#AUC of an attacker",
    )
    return parts.table("For whom the chance of a private value rises most.", heads, rows) + parts.paragraphs(
        words
    )


def _names(release: Described, numbers: Rounding) -> dict[str, str]:
    """Label of each private category that enough people have to what is published of it."""
    alphabet, policy, rows = release.private.alphabet, numbers.policy, numbers.rows or 0.0
    tables, named = alphabet.by_column(release.p_sy.sum(axis=1, keepdims=True)), {}
    for column in alphabet.columns:
        p = tables[column.name][:, 0]
        written = policy.column(column, p, rows)
        for code in np.flatnonzero(~policy.rare(policy.counted(column, p, rows))).tolist():
            named[column.label(code)] = f"{column.name} = {written.texts[written.codes[code]]}"
    return named


def _people(share: float, numbers: Rounding) -> str:
    """How many people a share is, where their number is known."""
    if numbers.rows is None:
        return numbers.percent(share)
    return f"{numbers.count(share * numbers.rows)} of {numbers.count(numbers.rows).removeprefix('about ')}"


def _instead(release: Described, numbers: Rounding, instead: Instead) -> str:
    if isinstance(release.aim, TaskAim) and instead.for_task:
        return _instead_for_task(release, release.aim, numbers, instead.for_task)

    def row(name: str, kept: float, leakage: float) -> tuple[str, str, str]:
        return name, numbers.percent(kept), numbers.bits(leakage)

    rows = [
        row("this release", release.promised_kept, release.leakage),
        row("the public columns as they are", 1.0, release.leakage_ceiling),
        row("the public columns of people chosen at random, at the same leakage", release.promised_leaked,
            release.leakage),
        *(row(name, view.share(r, release.disclosure_ceiling, 1.0), v) for name, r, v in instead.plain),
    ]  # fmt: skip
    return parts.table("", ("what is published", "#kept", "#leaked"), rows)


def _instead_for_task(
    release: Described, aim: TaskAim, numbers: Rounding, found: Sequence[TaskAlternative]
) -> str:
    def row(name: str, useful: float, disclosure: float, leakage: float) -> tuple[str, ...]:
        kept = view.share(disclosure, release.disclosure_ceiling, 1.0)
        return name, numbers.percent(useful), numbers.percent(kept), numbers.bits(leakage)

    symbols = release.symbols or Point(release.disclosure, release.leakage)
    rows = [
        row("this release", aim.share, symbols.disclosure, symbols.leakage),
        row("the public columns as they are", 1.0, release.disclosure_ceiling, release.leakage_ceiling),
        *(
            row(f"{each.method}, as good for {aim.told}", each.utility_share, each.disclosure, each.leakage)
            for each in found
        ),
    ]
    heads = ("what is published", f"#kept of {aim.told}", "#kept of all columns", "#leaked")
    caption = "" if release.symbols is None else "Of this release, the symbols."
    return parts.table(caption, heads, rows)


def signatures(contact: str) -> str:
    """Return who is to be asked, and the lines to sign on."""
    ask = escape(contact) if contact else '<span class="line"></span>'
    lines = "".join(
        f'<div><span class="line"></span><small>{text}</small></div>'
        for text in ("prepared by", "date", "reviewed by", "date")
    )
    return (
        f'<div class="sign"><p>Questions to: {ask}</p>'
        '<p class="choice">☐ approved &emsp; ☐ approved with conditions &emsp; ☐ not approved</p>'
        f'<div class="lines">{lines}</div></div>'
    )

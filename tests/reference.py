"""Forty questions and their answers, to show that a change of the house changes no answer: python tests/reference.py

Every variant of a question on two tables, and the ends of the axes. Nothing here meets a clock: gaps are wide enough to
be closed long before the limits. An answer is equal where its status is, and its numbers and its bounds are within 1e-9
nats and its channel within 1e-6 of what is stored; last digits depend on the machine's linear algebra.

    python tests/reference.py                 # compare: "40 of 40 equal", or what differs
    python tests/reference.py --store         # write tests/fixtures/reference.json anew, with a reason in the commit
    python tests/reference.py --only known    # those whose name holds a text
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import privfunnel as pf
from privfunnel.release import distortion

STORED = Path(__file__).parent / "fixtures" / "reference.json"

#: Nats, and what entries of a channel may differ by: optima of one table may lie close to each other.
NUMBERS, CHANNELS = 1e-9, 1e-6

#: What an answer is known by; those that it has.
NAMES = (
    "disclosure",
    "leakage",
    "utility",
    "distortion",
    "lower_bound",
    "disclosure_upper_bound",
    "utility_upper_bound",
    "least_distortion",
    "gap",
    "slope",
)


def tables() -> dict[str, tuple[pf.Problem, str]]:
    """Two problems with a task each, and the name of a public column of theirs."""
    heart = pf.instances.load("heart-failure")
    rng = np.random.default_rng(11)
    public = {"town": ["a", "a", "a", "b", "b", "b", "c", "c", "c"], "plan": list("xyzxyzxyz")}
    private = {"ill": ["no", "no", "yes", "yes"], "sex": ["m", "f", "m", "f"]}
    small = pf.Problem(rng.integers(1, 40, (4, 9)), public_columns=public, private_columns=private)
    made = {}
    for name, problem, column in (("heart", heart, "anaemia"), ("small", small, "plan")):
        one = np.random.default_rng(0).integers(0, 2, problem.n_x)
        task = np.stack([problem.p_sx.sum(axis=0) * (0.2 + 0.6 * (one == value)) for value in (0, 1)])
        made[name] = (
            pf.Problem(
                problem.counts,
                public_columns=problem.public_columns,
                private_columns=problem.private_columns,
                p_ux={"task": task},
            ),
            column,
        )
    return made


def questions() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names, and what solves them."""
    wide: dict[str, Any] = {"gap": 1e-3, "time_limit": 600.0}
    for table, (problem, column) in tables().items():
        plain = pf.Problem(
            problem.counts, public_columns=problem.public_columns, private_columns=problem.private_columns
        )
        most = plain.disclosure_ceiling
        first, second = list(plain.private_columns or {})[:2]
        known: dict[str, Any] = {"known": [column], **wide}
        asked: dict[str, tuple[pf.Problem, dict[str, Any]]] = {
            "plain, disclosure": (plain, {"disclosure": 0.8 * most}),
            "plain, budget": (plain, {"leakage": 0.02}),
            "plain, zero": (plain, {"leakage": 0}),
            "plain, everything": (plain, {"disclosure": most}),
            "known": (plain, {"disclosure": 0.8 * most, **known}),
            "known, budget": (plain, {"leakage": 0.02, **known}),
            "known, zero": (plain, {"leakage": 0, **known}),
            "published": (plain, {"disclosure": 0.8 * most, "published": [column], **wide}),
            "guarantee alone": (plain, {"guarantees": ["lip=0.2"], **wide}),
            "guarantee, disclosure": (plain, {"disclosure": 0.5 * most, "guarantees": ["lift=0.5"], **wide}),
            "maximal leakage": (plain, {"disclosure": 0.7 * most, "measure": "maximal-leakage", **wide}),
            "chi-squared": (plain, {"disclosure": 0.7 * most, "measure": "chi-squared", **wide}),
            "attributes": (plain, {"leakage": {first: 0.01, second: 0.01}, **wide}),
            "task, utility": (problem, {"utility": "60%", **wide}),
            "task, budget": (problem, {"leakage": 0.01, **wide}),
            "task, zero": (problem, {"leakage": 0, **wide}),
            "task, known": (problem, {"utility": "60%", **known}),
            "task, known, budget": (problem, {"leakage": 0.01, **known}),
        }
        for name, (posed, options) in asked.items():
            yield f"{table}: {name}", lambda posed=posed, options=options: pf.solve(posed, **options)
        yield f"{table}: distortion", lambda plain=plain: distortion.solve(plain, distortion=0.2)
        yield f"{table}: distortion, budget", lambda plain=plain: distortion.solve(plain, leakage=0.02)


def told(solution: Any) -> dict[str, Any]:
    """What is stored of an answer."""
    other = {"utility", "distortion"} - {solution.question.axis.value}
    numbers = {name: None if name in other else getattr(solution, name) for name in NAMES}
    return {
        "status": solution.status.value,
        "numbers": {name: None if value is None else float(value) for name, value in numbers.items()},
        "channel": np.round(np.asarray(solution.channel, dtype=float), 8).tolist(),
    }


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What is not equal, in words."""
    found = []
    if before["status"] != now["status"]:
        found.append(f"status {before['status']}, now {now['status']}")
    for name in NAMES:
        old, new = before["numbers"].get(name), now["numbers"][name]
        if (old is None) != (new is None) or (
            old is not None and not math.isclose(old, new, rel_tol=0, abs_tol=NUMBERS)
        ):
            found.append(f"{name} {old}, now {new}")
    old, new = np.asarray(before["channel"]), np.asarray(now["channel"])
    if old.shape != new.shape:
        found.append(f"channel of shape {old.shape}, now {new.shape}")
    elif np.abs(old - new).max() > CHANNELS:
        found.append(f"channel by {np.abs(old - new).max():.1e}")
    return found


def main() -> int:
    """Compare, or store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    stored = json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
    equal = tried = 0
    for name, solve in questions():
        if options.only not in name:
            continue
        tried += 1
        answer = told(solve())
        if options.store:
            stored[name] = answer
            continue
        found = differences(stored[name], answer) if name in stored else ["nothing is stored"]
        equal += not found
        if found:
            print(f"{name}: {'; '.join(found)}", flush=True)
    if options.store:
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in stored.items())
        STORED.write_text("{\n" + lines + "\n}\n", encoding="utf-8")
        print(f"stored {tried}")
        return 0
    print(f"{equal} of {tried} equal")
    return 0 if equal == tried else 1


if __name__ == "__main__":
    sys.exit(main())

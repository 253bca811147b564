"""Judge the codes that ``papers/deep.py`` trained: attackers on rows that were held out; ``judged.json`` in its folder.

Each judgement is kept when it is made, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from deep import PRIVATE, Job, jobs

from privfunnel.learning.deep.judge import Judgement, judge
from privfunnel.learning.deep.trainer import split

#: Rows that each judgement rests on at most, half of them to train attackers; and every how many strengths.
MOST_ROWS, EVERY = 4000, 2


def judged(folder: Path, quick: bool) -> dict[str, Any]:
    """All judgements: file and number of the strength to what attackers found."""
    target = folder / "judged.json"
    found: dict[str, Any] = json.loads(target.read_text("utf-8")) if target.exists() else {}
    with np.load(folder / "data.npz") as stored:
        arrays = dict(stored)
    for job in jobs(quick):
        path = folder / f"{job.file}.npz"
        if job.data not in PRIVATE or not path.exists():
            continue
        with np.load(path) as stored:
            codes = {
                name: value.astype(np.float64) for name, value in stored.items() if name.startswith("codes")
            }
        if quick and job.variant != "vpaf":
            continue
        numbers = range(1, len(job.strengths), EVERY) if job.data != "digits" else range(len(job.strengths))
        for number in numbers[:1] if quick else numbers:
            name = f"{job.file}.{number}"
            if name not in found:
                found[name] = judgement(job, codes[f"codes_{number}"], arrays)
                target.write_text(json.dumps(found), encoding="utf-8")
                print(name, found[name]["private"]["words"], flush=True)
    return found


def judgement(job: Job, codes: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """What attackers learn of the private attribute, and a data scientist of the task."""
    private = arrays[PRIVATE[job.data]]
    held = split(len(private), job.schedule.held_out)[0].numpy()
    made = {"private": described(judge(codes, private[held], most_rows=MOST_ROWS))}
    if job.data == "digits":
        made["task"] = described(judge(codes, arrays["digit"][held], most_rows=MOST_ROWS))
    return made


def described(found: Judgement) -> dict[str, Any]:
    """JSON-ready."""
    best = found.best
    return {
        "words": found.words, "prior": found.prior.value, "best": best.name,
        "accuracy": [best.accuracy.value, best.accuracy.low, best.accuracy.high],
        "information": [best.information.value, best.information.low, best.information.high],
        "all": {attack.name: attack.accuracy.value for attack in found.attacks},
    }  # fmt: skip

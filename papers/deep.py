"""Train every deep method on every data set, judge them all alike, and write ``docs/deep.md``.

    python papers/deep.py prepare --adult adult.data     # data.npz, on a machine with the whole package
    python papers/deep.py train --device cuda            # needs PyTorch, NumPy and SciPy only; finished parts are kept
    python papers/deep.py page                           # attackers, proved curves, figures, the page

``--out`` names the folder of all results (``out/deep``), ``--limit`` the seconds after which no further training
begins, ``--pack`` a folder for archives of the results, ``--quick`` rehearses with few members and passes.
"""

from __future__ import annotations

import argparse
import json
import tarfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from privfunnel.learning.deep import closed_forms, data, exact
from privfunnel.learning.deep.codes import Code, DiscreteCode, GaussianCode, LaplaceCode
from privfunnel.learning.deep.methods import METHODS, Method
from privfunnel.learning.deep.methods.ppan import record_code
from privfunnel.learning.deep.tensors import torch
from privfunnel.learning.deep.trainer import Rows, Schedule, Trained, train

#: The weight of the rate where it has a price, and where it has next to none.
RATE = 0.5
FREE = {"complexity": 0.001}
#: What is compared: label to method, options, and the code of rows (tables always have listed symbols).
VARIANTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "vpaf": ("vpaf", {}, "gaussian"),
    "vpaf-laplace": ("vpaf", {}, "laplace"),
    "vpaf-discrete": ("vpaf", {}, "discrete"),
    "club-p1": ("club", {"form": "P1", **FREE}, "gaussian"),
    "club-p3": ("club", {"form": "P3", "fit_steps": 2, **FREE}, "gaussian"),
    "dvpf-upper": ("dvpf", {"bound": "upper", **FREE}, "gaussian"),
    "dvpf-lower": ("dvpf", {"bound": "lower", "fit_steps": 2, **FREE}, "gaussian"),
    "dca": ("dca", {**FREE}, "gaussian"),
    "ppan": ("ppan", {}, "record"),
    "alr": ("alr", {"fit_steps": 2, **FREE}, "gaussian"),
    # With a small weight of the rate the noise of a code vanishes, and with it all privacy but an adversary's view of
    # it; here the rate has a price.
    "club-p3-rate": ("club", {"form": "P3", "fit_steps": 2, "complexity": RATE}, "rate"),
    "dvpf-lower-rate": ("dvpf", {"bound": "lower", "fit_steps": 2, "complexity": RATE}, "rate"),
    "dca-rate": ("dca", {"complexity": RATE}, "rate"),
    "alr-rate": ("alr", {"fit_steps": 2, "complexity": RATE}, "rate"),
}
STRENGTHS: dict[str, list[float]] = {
    "vpaf": [1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 8.0],
    "upper": [0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 20.0, 60.0],
    "lower": [0.3, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0],
    "ppan": [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
    "alr": [0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2],
}
#: On digits the task is small, and releasing the mean of both colours has a distortion of 0.62.
DIGITS: dict[str, list[float]] = {
    "vpaf": [1.2, 2.0, 8.0, 40.0],
    "upper": [0.003, 0.01, 0.1, 1.0],
    "lower": [0.3, 1.0, 4.0, 16.0],
    "ppan": [0.2, 0.5, 0.8, 1.1],
    "alr": [0.0, 0.01, 0.05, 0.2],
}
#: Rows that are judged by attackers, and the array of what is private in each.
PRIVATE = {"adult": "adult_s", "sex": "adult_sex", "digits": "colour"}
#: Normal X with independent columns and two private numbers, one that says much and one that says little.
MIXING = np.array([[2.0, 0.0, 0.0], [0.0, 0.5, 0.0]])
PAIR = (10, 0.4)
SEED = 20_260


class Job(NamedTuple):
    """Members of one method on one data set."""

    data: str
    variant: str
    strengths: list[float]
    seeds: list[int]
    schedule: Schedule
    hidden: tuple[int, ...]

    @property
    def file(self) -> str:
        """Where its results are kept."""
        return f"{self.data}.{self.variant}"

    @property
    def members(self) -> list[tuple[float, int]]:
        """Strength and seed of each member, seeds of a strength beside each other."""
        return [(strength, seed) for strength in self.strengths for seed in self.seeds]


def strengths(variant: str, of: dict[str, list[float]] = STRENGTHS) -> list[float]:
    """The multipliers or budgets of a variant."""
    name, options, _ = VARIANTS[variant]
    if name in of:
        return of[name]
    above = options.get("bound") == "upper" or options.get("form") == "P1"
    return of["upper" if above else "lower"]


def jobs(quick: bool) -> list[Job]:
    """All trainings, the most important first."""
    few_strengths = slice(None, None, 4 if quick else 1)
    seeds = list(range(1 if quick else 9))
    rows = Schedule(
        epochs=2 if quick else 60, batch_size=1024, learning_rate=2e-3, last_rate=0.1, patience=15
    )
    cells = Schedule(
        epochs=4 if quick else 500, learning_rate=1e-2, last_rate=0.02, patience=500, held_out=0.0
    )
    pair = Schedule(
        epochs=4 if quick else 1200, learning_rate=5e-2, last_rate=0.1, patience=1200, held_out=0.0
    )
    normal = Schedule(
        epochs=2 if quick else 200,
        batch_size=128,
        learning_rate=3e-2,
        last_rate=0.03,
        patience=200,
        double=True,
    )
    digits = Schedule(
        epochs=3 if quick else 400,
        batch_size=256,
        learning_rate=2e-3,
        last_rate=0.1,
        patience=80,
        held_out=0.4,  # attackers need rows, too
    )
    few = seeds[:4]
    # A rehearsal has one method of each kind.
    whole = [name for name in VARIANTS if not quick or name in ("vpaf", "club-p3", "ppan")]
    found = [
        Job(of, name, strengths(name)[few_strengths], seeds, rows, (64, 64))
        for of in ("adult", "sex")
        for name in whole
        if not quick or of == "adult" or name == "vpaf"
    ]
    table = [name for name in whole if VARIANTS[name][2] in ("gaussian", "record")]
    found += [Job("heart", name, strengths(name)[few_strengths], few, cells, (32,)) for name in table]
    found += [Job("pair", "ppan", [0.1, 0.2, 0.3, 0.4, 0.5, 0.7], few, pair, ())]
    found += [Job("normal", "vpaf", [1.15, 1.2, 1.3, 1.5, 2.0, 4.0, 6.0], few, normal, ())]
    seen = [name for name in whole if VARIANTS[name][2] in ("gaussian", "record", "rate")]
    found += [
        Job("digits", name, strengths(name, DIGITS)[few_strengths], few, digits, (64, 64)) for name in seen
    ]
    found += [Job("binned", name, strengths(name)[few_strengths], few, cells, (32,)) for name in table]
    return found


# --- prepare --------------------------------------------------------------------------------------------------------


def prepare(folder: Path, adult: Path | None, quick: bool) -> None:
    """Write data.npz; without ``adult`` in a rehearsal, rows with the same columns drawn at random."""
    from privfunnel.data import instances

    if adult is not None:
        x, s = data.adult(adult)
        sex = data.adult(adult, private="sex")[1]
    elif quick:
        rng = np.random.default_rng(SEED)
        x, s = rng.integers(0, 3, (600, 7)), rng.integers(0, 2, 600)
        x[:, 0] = (x[:, 0] + s) % 3
        sex = rng.integers(0, 2, 600)
    else:
        raise SystemExit("give --adult, the file adult.data of UCI")
    images, colour, digit = data.coloured_digits(SEED)
    if quick:
        images, colour, digit = images[:600], colour[:600], digit[:600]
    np.savez_compressed(
        folder / "data.npz",
        adult_x=x.astype(np.uint8), adult_s=s.astype(np.uint8), adult_sex=sex.astype(np.uint8),
        heart=instances.load("heart-failure").p_sx, pair=data.symmetric_pair(*PAIR),
        binned=data.discretised_pair(0.7, 4, 12),
        images=(images * 16).astype(np.uint8), colour=colour.astype(np.uint8), digit=digit.astype(np.uint8),
    )  # fmt: skip


def dataset(arrays: Any, name: str) -> data.Dataset:
    """Rows of a data set from data.npz."""
    if name in ("adult", "sex"):
        return data.from_codes(arrays["adult_x"], arrays[PRIVATE[name]])
    if name == "digits":
        return data.images(arrays["images"] / np.float32(16), arrays["colour"], arrays["digit"])
    if name == "normal":
        return data.normal_pair(8192, MIXING, SEED)
    return data.table(arrays[name])


def symbols_of(made: data.Dataset) -> tuple[Any, Any]:
    """The public symbols of categorical rows (M, width), and p(s, x) (K, M) as the rows have it."""
    x, s = np.asarray(made.rows.x), np.asarray(made.rows.s)
    found, place = np.unique(x.astype(np.uint8), axis=0, return_inverse=True)
    weight = np.full(len(x), 1.0 / len(x)) if made.rows.weight is None else np.asarray(made.rows.weight)
    p_sx = np.zeros((s.shape[1], len(found)))
    np.add.at(p_sx, (s.argmax(axis=1), place.reshape(-1)), weight)
    return found.astype(np.float32), p_sx / p_sx.sum()


# --- train ----------------------------------------------------------------------------------------------------------


def method_of(job: Job, made: data.Dataset) -> Method:
    """The objective of a job."""
    name, options, kind = VARIANTS[job.variant]
    variables = made.variables
    code: Code
    if name == "ppan":
        code = record_code(variables.x)
    elif job.data in ("heart", "binned"):
        code = DiscreteCode(size=variables.x.width + 1, listed=True)
    elif job.data == "normal":
        code = GaussianCode(size=3, additive=True)
    else:
        others: dict[str, Code] = {"laplace": LaplaceCode(), "discrete": DiscreteCode(size=32)}
        code = others.get(kind, GaussianCode())
    return METHODS[name](variables=variables, code=code, hidden=job.hidden, **options)


def run(job: Job, made: data.Dataset, device: str, folder: Path, draws: int) -> dict[str, Any]:
    """Train the members of a job and measure what can be measured where they were trained."""
    method = method_of(job, made)
    done = train(
        method,
        made.rows,
        [a for a, _ in job.members],
        [b for _, b in job.members],
        job.schedule,
        device=device,
    )
    params = {name: value.to(done.device) for name, value in done.params.items()}
    members = [exact.member(params, i) for i in range(len(job.members))]
    found: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    if job.data == "normal":
        known = [closed_forms.linear_informations(method, each, MIXING) for each in members]
        found["informations"] = [list(each) for each, _ in known]
        found["variances"] = [variances.tolist() for _, variances in known]
    elif job.data != "digits":
        symbols, p_sx = symbols_of(made)
        found["informations"] = [
            list(exact.informations(method, each, symbols, p_sx, draws)) for each in members
        ]
        if job.data not in PRIVATE:
            arrays["channel"] = np.stack([exact.channel(method, each, symbols) for each in members]).astype(
                np.float32
            )
    if job.data in PRIVATE:
        arrays |= codes(job, made.rows, method, members)
    np.savez_compressed(folder / f"{job.file}.npz", **arrays)
    return {**found, **record(job, done)}


def codes(job: Job, rows: Rows, method: Method, members: list[Any]) -> dict[str, Any]:
    """Codes of the rows that were held out, of the first seed of each strength, and which rows these are."""
    from privfunnel.learning.deep.randomness import Noise
    from privfunnel.learning.deep.trainer import split

    held, _ = split(len(rows.x), job.schedule.held_out)
    some = {}
    for i in range(0, len(members), len(job.seeds)):
        like = members[i]["encoder.0.weight"]
        x = torch.as_tensor(np.asarray(rows.x)[held.numpy()]).to(like)[None]
        noise = Noise(torch.full((1,), SEED + i, device=like.device), 0, like.dtype)
        with torch.no_grad():
            y = method.code.draw(members[i], method.encode(members[i], x), noise).y[0]
        some[f"codes_{i // len(job.seeds)}"] = y.half().cpu().numpy()
    return some


def record(job: Job, done: Trained) -> dict[str, Any]:
    """What a page needs to know of a run."""
    return {
        "data": job.data, "variant": job.variant, "strengths": job.strengths, "seeds": job.seeds,
        "best": done.best.tolist(), "epochs": done.epochs.tolist(), "seconds": done.seconds, "memory": done.memory,
        "device": torch.cuda.get_device_name() if done.device != "cpu" else "CPU", "torch": torch.__version__,
    }  # fmt: skip


def train_all(folder: Path, device: str, limit: float, quick: bool, only: list[str]) -> None:
    """Run what is missing, until the limit."""
    began = time.perf_counter()
    with np.load(folder / "data.npz") as stored:
        arrays = dict(stored)
    for job in jobs(quick):
        if only and job.file not in only:
            continue
        target = folder / f"{job.file}.json"
        if target.exists():
            continue
        if time.perf_counter() - began > limit:
            print(f"{job.file}: not begun, the limit of {limit:g} s is reached", flush=True)
            continue
        try:
            found = run(job, dataset(arrays, job.data), device, folder, 256 if quick else 8192)
        except Exception as error:  # the next one may do better, and its results are wanted
            print(f"{job.file}: failed: {error!r}", flush=True)
            continue
        target.write_text(json.dumps(found), encoding="utf-8")
        print(
            f"{job.file}: {len(job.members)} members in {found['seconds']:.1f} s, "
            f"{time.perf_counter() - began:.0f} s in all",
            flush=True,
        )


def pack(folder: Path, target: Path) -> None:
    """An archive of what was trained for each data set."""
    for name in sorted({job.data for job in jobs(quick=False)}):
        paths = sorted(folder.glob(f"{name}.*.*"))
        if paths:
            with tarfile.open(target / f"{name}.tar.gz", "w:gz") as archive:
                for path in paths:
                    archive.add(path, path.name)


def main() -> None:
    """One of the parts, or a rehearsal of all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=("prepare", "train", "page"), help="what to do")
    parser.add_argument("--out", type=Path, default=Path("out/deep"))
    parser.add_argument("--adult", type=Path, help="the file adult.data of UCI")
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--limit", type=float, default=1e9, help="seconds after which no further training begins"
    )
    parser.add_argument("--only", nargs="*", default=[], metavar="DATA.METHOD", help="train these alone")
    parser.add_argument("--pack", type=Path, help="a folder for archives of the results")
    parser.add_argument("--quick", action="store_true", help="a rehearsal of all parts")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.part is None and not given.quick:
        parser.error("say which part: prepare, train or page")
    if given.part in (None, "prepare"):
        prepare(given.out, given.adult, given.quick)
    if given.part in (None, "train"):
        train_all(given.out, given.device, given.limit, given.quick, given.only)
        if given.pack is not None:
            pack(given.out, given.pack)
    if given.part in (None, "page"):
        import deep_page  # it needs the whole package

        deep_page.write(given.out, quick=given.quick)


if __name__ == "__main__":
    main()

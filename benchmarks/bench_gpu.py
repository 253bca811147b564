"""The paper's census experiment and a 64 × 4096 problem on a GPU, with their share of the device's limits.

Run by hand on a machine with a CUDA device and PyTorch (numba is not needed)::

    PYTHONPATH=src python benchmarks/bench_gpu.py --out DIR

writes DIR/gpu.json; copy it to benchmarks/results/gpu.json, and where numba is installed add how far the answers are
from those of the compiled CPU code with ``python benchmarks/bench_gpu.py --compare benchmarks/results/gpu.json``.
``--device torch --quick`` rehearses it without a GPU. A run whose kernels the page is to show is kept as
benchmarks/results/gpu_profile.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from privfunnel.algorithms.aem import AEM, arrays
from privfunnel.algorithms.aem.runs import FIRST_SLOPE
from privfunnel.algorithms.aem.starts import Starts
from privfunnel.algorithms.aem.state import Tables, log_of
from privfunnel.algorithms.aem.torch_backend import torch_batch
from privfunnel.data import instances
from privfunnel.model.problem import Problem


def synchronise(device: str) -> None:
    """Wait until the device is idle."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def timed(device: str, work: Any) -> tuple[float, Any]:
    """Wall-clock seconds of some work on a device, and its result."""
    synchronise(device)
    begin = time.perf_counter()
    result = work()
    synchronise(device)
    return time.perf_counter() - begin, result


def limits(device: str, size: int) -> dict[str, float]:
    """Measured ceilings: bytes a second of a large copy (read + write), exponentials a second in double precision."""
    source = torch.rand(size, dtype=torch.float64, device=device)
    target = torch.empty_like(source)
    for work in (lambda: target.copy_(source), lambda: torch.exp(source, out=target)):
        for _ in range(3):
            work()
    copies = sorted(timed(device, lambda: target.copy_(source))[0] for _ in range(9))
    exps = sorted(timed(device, lambda: torch.exp(source, out=target))[0] for _ in range(9))
    return {"copy_bytes_per_s": 16.0 * size / copies[4], "exp_per_s": size / exps[4]}


def census(device: str, quick: bool) -> dict[str, Any]:
    """20 disclosures × 30 starts × 500 steps, plain and accelerated."""
    problem = instances.load("census-income")
    points, restarts, steps = (3, 2, 20) if quick else (20, 30, 500)
    wanted = [problem.disclosure_ceiling * k / (points + 1) for k in range(1, points + 1)]
    result: dict[str, Any] = {
        "points": points,
        "restarts": restarts,
        "max_steps": steps,
        "disclosures": wanted,
    }
    for label, accelerate in (("plain", False), ("accelerated", True)):
        solver = AEM(device=device, accelerate=accelerate, restarts=restarts, max_steps=steps)
        list(AEM(device=device, accelerate=accelerate, restarts=2, max_steps=3).trace(problem, wanted[:1]))
        seconds, answers = timed(device, lambda solver=solver: list(solver.trace(problem, wanted, seed=0)))
        evaluated = [problem.evaluate(answer.channel) for answer in answers]
        result[label] = {
            "seconds": seconds,
            "leakages": [point.leakage for point in evaluated],
            "worst_shortfall": max(r - point.disclosure for r, point in zip(wanted, evaluated, strict=True)),
            "steps": [answer.steps for answer in answers],
        }
        print(
            f"census {label}: {seconds:.2f} s, worst shortfall {result[label]['worst_shortfall']:.1e} nats",
            flush=True,
        )
    return result


def random_problem(n_s: int, n_x: int, seed: int = 0) -> Problem:
    """Sparse Dirichlet p(s|x) under a Dirichlet p(x)."""
    rng = np.random.default_rng(seed)
    return Problem((rng.dirichlet(np.full(n_s, 0.3), size=n_x) * rng.dirichlet(np.ones(n_x))[:, None]).T)


def steps(
    device: str, problem: Problem, runs: int, count: int, ceilings: dict[str, float], fused: bool
) -> dict[str, Any]:
    """Time of one plain step on a resident batch, against what its memory traffic and exponentials must cost."""
    tables = Tables.of(problem.p_sx)
    n_y = problem.n_x + 1
    share = 0.6 * problem.disclosure_ceiling
    start = Starts(tables, n_y, 0).channels(list(range(runs)), np.full(runs, share))
    batch = torch_batch(tables, device) if fused else arrays.Batch.of(tables, torch, device=device)
    points = torch.asarray(log_of(tables.p_x[:, None] * start), device=device)
    slope = torch.full((runs,), FIRST_SLOPE, dtype=torch.float64, device=device)
    target = torch.full((runs,), share - tables.h_x, dtype=torch.float64, device=device)
    u = None
    for _ in range(5):
        points, u, slope, _, _ = arrays.plain_step(batch, points, u, slope, target)
    counted = count_evaluations(batch, points, u, slope, target)

    def work() -> None:
        nonlocal points, u, slope
        for _ in range(count):
            points, u, slope, _, _ = arrays.plain_step(batch, points, u, slope, target)

    seconds, _ = timed(device, work)
    entries = runs * problem.n_x * n_y
    each = float(counted)
    # Fewest passes over (runs, M, N) arrays of doubles: an evaluation reads base and log w; the step writes both, reads
    # log u twice (for p(s, y) and for them) and writes it once.
    passes = 2.0 * each + 5.0
    run = arrays.begin(batch, points, points, slope, slope * 0.0 + 1.0, slope * 0.0)

    def accelerated() -> None:
        nonlocal run
        for _ in range(count):
            run = arrays.accelerated_step(batch, run, target, 0.0)

    accelerated()
    used = count_accelerated_evaluations(batch, run, target)
    accelerated_seconds, _ = timed(device, accelerated)
    works = {"plain": work, "accelerated": accelerated} if batch.fused is not None else {}
    kernels = {kind: profile(device, steps_, count) for kind, steps_ in works.items()}
    # Momentum adds a table to read, one to write, and an exponential.
    accelerated_floor = entries * max(
        (2.0 * used + 7.0) * 8.0 / ceilings["copy_bytes_per_s"], (used + 1.0) / ceilings["exp_per_s"]
    )
    floor = max(passes * 8.0 * entries / ceilings["copy_bytes_per_s"], each * entries / ceilings["exp_per_s"])
    peak = torch.cuda.max_memory_allocated(device) if device.startswith("cuda") else 0
    return {
        "n_s": problem.n_s, "n_x": problem.n_x, "n_y": n_y, "runs": runs, "steps": count,
        "fused": batch.fused is not None,
        "seconds_a_step": seconds / count, "evaluations_a_step": each, "floor_seconds": floor,
        "seconds_an_accelerated_step": accelerated_seconds / count,
        "share_of_limit": floor * count / seconds, "ns_an_entry": 1e9 * seconds / count / entries,
        "peak_bytes": int(peak), "accelerated_evaluations": used, "accelerated_floor_seconds": accelerated_floor,
        "kernel_seconds_a_step": kernels,
    }  # fmt: skip


def count_evaluations(batch: Any, points: Any, u: Any, slope: Any, target: Any) -> int:
    """Evaluations of G in one eager step from here."""
    count = 0
    plain = arrays.evaluate

    def counting(*args: Any) -> Any:
        nonlocal count
        count += 1
        return plain(*args)

    arrays.evaluate = counting  # type: ignore[assignment]
    try:
        arrays.plain_step(dataclasses.replace(batch, fused=None), points, u, slope, target)
    finally:
        arrays.evaluate = plain
    return count


def count_accelerated_evaluations(batch: Any, run: Any, target: Any, steps: int = 5) -> float:
    """Evaluations of G in an accelerated step from here, mean of all runs: one whose λ stays is done."""
    moved: list[float] = []
    before: Any = None

    def counting(batch: Any, base: Any, log_w: Any, trial: Any, target: Any) -> Any:
        nonlocal before
        moved.append(1.0 if before is None else float((trial != before).double().mean()))
        before = trial
        return plain(batch, base, log_w, trial, target)

    plain = arrays.evaluate
    with mock.patch.object(arrays, "evaluate", counting):
        for _ in range(steps):
            before = None
            run = arrays.accelerated_step(dataclasses.replace(batch, fused=None), run, target, 0.0)
    return sum(moved) / steps


def profile(device: str, work: Any, count: int) -> dict[str, float]:
    """Seconds that the device works on each kernel in one of ``count`` steps, by PyTorch's profiler."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        work()
        synchronise(device)
    taken = {event.key: 1e-6 * event.self_device_time_total / count for event in found.key_averages()}
    return {name: seconds for name, seconds in taken.items() if seconds > 0.0}


def agreement(device: str) -> float:
    """Largest difference of the answers' channels between this device and PyTorch's CPU, on heart failure."""
    problem = instances.load("heart-failure", perturbation="probabilities")
    wanted = [0.9, 1.5, 2.2]
    worst = 0.0
    for accelerate in (False, True):
        pair = [
            list(
                AEM(device=d, restarts=4, max_steps=60, accelerate=accelerate).trace(problem, wanted, seed=3)
            )
            for d in (device, "torch")
        ]
        worst = max(worst, *(float(np.abs(a.channel - b.channel).max()) for a, b in zip(*pair, strict=True)))
    return worst


def compare(path: Path) -> None:
    """Add the largest differences of the census leakages from the compiled CPU code to a result."""
    result = json.loads(path.read_text())
    problem = instances.load("census-income")
    experiment = result["census"]
    difference = {}
    for label in ("plain", "accelerated"):
        solver = AEM(
            device="numba",
            accelerate=label == "accelerated",
            restarts=experiment["restarts"],
            max_steps=experiment["max_steps"],
        )
        answers = solver.trace(problem, experiment["disclosures"], seed=0)
        leakages = [problem.evaluate(answer.channel).leakage for answer in answers]
        difference[label] = float(np.abs(np.array(leakages) - experiment[label]["leakages"]).max())
    experiment["cpu_difference"] = difference
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(difference)


def main() -> None:
    """Measure everything and write gpu.json, saving after each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="a rehearsal with tiny numbers")
    parser.add_argument("--compare", type=Path, help="a gpu.json to compare with the compiled CPU code")
    options = parser.parse_args()
    if options.compare is not None:
        compare(options.compare)
        return
    place = "cpu" if options.device == "torch" else options.device
    options.out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name(place) if place != "cpu" else platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "quick": options.quick,
    }

    def save() -> None:
        (options.out / "gpu.json").write_text(json.dumps(result, indent=1) + "\n")

    ceilings = limits(place, 10**6 if options.quick else 2 * 10**8)
    result["limits"] = ceilings
    print(ceilings, flush=True)
    result["largest_difference_from_cpu"] = agreement(options.device)
    print("largest difference from the CPU:", result["largest_difference_from_cpu"], flush=True)
    save()
    result["census"] = census(options.device, options.quick)
    save()
    census_problem = instances.load("census-income")
    large = random_problem(4, 40) if options.quick else random_problem(64, 4096)
    result["steps"] = [
        steps(place, problem, 2 if options.quick else runs, 3 if options.quick else count, ceilings, fused)
        for problem, runs, count in ((census_problem, 600, 30), (large, 8, 10))
        for fused in (False, True)
    ]
    for row in result["steps"]:
        print(row, flush=True)
    save()
    if not options.quick:
        solver = AEM(device=options.device, restarts=8, max_steps=100)
        seconds, answer = timed(place, lambda: solver.solve(large, 0.6 * large.disclosure_ceiling))
        point = large.evaluate(answer.channel)
        result["large"] = {
            "n_s": large.n_s, "n_x": large.n_x, "restarts": 8, "max_steps": 100, "seconds": seconds,
            "disclosure": point.disclosure, "leakage": point.leakage, "asked": 0.6 * large.disclosure_ceiling,
        }  # fmt: skip
        print(result["large"], flush=True)
    save()


if __name__ == "__main__":
    main()

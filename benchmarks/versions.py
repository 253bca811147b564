"""Two versions of the package in one run: the same work by each, in turns, as ratios of CPU time.

    python -m benchmarks.versions BEFORE AFTER [--repeats 9] [--quick]

BEFORE and AFTER are each an interpreter with that version installed, or a folder with its sources (``OLD/src``) for
this interpreter, which then has the same libraries for both. Each version works in a process of its own that stays: it
loads or compiles its kernels first, then both take turns, so that a slow minute of the machine hits them alike. The
answers are compared too: a change that is faster because it answers something else would show.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import harness

WORKER = Path(__file__).resolve().parent / "versions_worker.py"


class Version:
    """A process with one version of the package."""

    def __init__(self, where: str, *, quick: bool) -> None:
        path = Path(where)
        environment = {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "NUMBA_NUM_THREADS": "1",
            **os.environ,
        }
        # This checkout must not come first in an interpreter that has another version installed.
        environment.pop("PYTHONPATH", None)
        if path.is_dir():
            environment["PYTHONPATH"] = str(path.resolve())
        self.process = subprocess.Popen(
            [sys.executable if path.is_dir() else where, "-P", str(WORKER), *(["--quick"] if quick else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.about = self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of one version ended with status {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def work(self, case: str) -> dict[str, Any]:
        """CPU seconds of one case, and the leakages it found."""
        assert self.process.stdin is not None
        print(case, file=self.process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        """End the process."""
        with self.process:  # closes both pipes, and waits
            pass


def compare(before: Version, after: Version, case: str, repeats: int) -> dict[str, Any]:
    """One case by both, in turns: the quickest of each, the middle half of the pairs' ratios, and what changed."""
    old, new = [before.work(case)], [after.work(case)]  # fills caches, and has the answers
    change = max((y - x for x, y in zip(old[0]["leakages"], new[0]["leakages"], strict=True)), key=abs)
    old, new = [], []
    for turn in range(repeats):
        for version, runs in ((before, old), (after, new))[:: -1 if turn % 2 else 1]:
            runs.append(version.work(case)["seconds"])
    ratios = sorted(y / x for x, y in zip(old, new, strict=True))
    return {
        # Neighbours on the machine only ever add to CPU time, through the caches: the least is the cleanest.
        "before": min(old),
        "after": min(new),
        "ratio": min(new) / min(old),
        "quartiles": [ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]],
        "change": change,
    }


def main() -> None:
    """Measure and save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", help="interpreter with the earlier version, or folder with its sources")
    parser.add_argument("after", help="the later one")
    parser.add_argument("--names", nargs=2, help="what the page calls the two, by default their versions")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="the smallest cases, few repeats")
    options = parser.parse_args()
    versions = [Version(where, quick=options.quick) for where in (options.before, options.after)]
    before, after = versions
    cases = {}
    for case in before.about["cases"]:
        cases[case] = compare(before, after, case, 2 if options.quick else options.repeats)
        print(case, cases[case], flush=True)
    for version in versions:
        version.close()
    harness.save(
        "versions",
        {
            "machine": harness.machine(),
            "names": options.names or [before.about["version"], after.about["version"]],
            "repeats": 2 if options.quick else options.repeats,
            "cases": cases,
        },
    )


if __name__ == "__main__":
    main()

"""Mutants of what proofs rest on: allowances for rounding, comparisons with claims, statuses. Tests have to notice all.

    python tests/house/mutants.py          # "36 of 36 mutants die", or the names of those that live

Each mutant is a copy of the package with one place changed, on which the tests are run that belong to that place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: The tests of what makes an answer optimal, and of rounding everywhere else.
JUDGING, ROUNDING = "tests/solving/test_judging.py", "tests/certificate/test_rounding.py"

#: File below the package, what stands there, and what takes its place.
MUTANTS: list[tuple[str, str, tuple[str, ...]]] = [
    ("certificate/kinds/plain.py", "self.value - (problem.n_x + problem.n_s + _ADDING) * _EPS * size",
     ("self.value + (problem.n_x + problem.n_s + _ADDING) * _EPS * size", "self.value")),
    ("certificate/kinds/free_disclosure.py", "h_c - claimed + rounding", ("h_c - claimed - rounding", "h_c - claimed")),
    ("certificate/kinds/distortion.py", "entry = entry - _EPS * (problem.n_s + _ENTRY) * size",
     ("entry = entry + _EPS * (problem.n_s + _ENTRY) * size", "pass")),
    ("certificate/kinds/distortion.py", "returned - terms * _EPS * most", ("returned + terms * _EPS * most",)),
    ("certificate/kinds/guessing.py", "float(problem.p_x @ scores) + allowance",
     ("float(problem.p_x @ scores) - allowance", "float(problem.p_x @ scores)")),
    ("certificate/kinds/chi_squared.py", "shift = _proved_shift(matrix) + rounding",
     ("shift = _proved_shift(matrix) - rounding",)),
    ("certificate/thinning.py", "np.min(highest - prices)) - rounding", ("np.min(highest - prices)) + rounding",)),
    ("certificate/thinning.py", "rounding = (n_s + _ADDING) * _EPS * size",
     ("rounding = -(n_s + _ADDING) * _EPS * size",)),
    ("certificate/chain.py", "float(np.max(prices - made)) - rounding", ("float(np.max(prices - made)) + rounding",)),
    ("certificate/private_pairs.py", "(value - rounding)", ("(value + rounding)", "(value)")),
    ("certificate/image_boxes.py", "min(share + ROOM, (at_high - box.value[0] + ROOM) / slope)",
     ("min(share + ROOM, (at_high - box.value[0] - ROOM) / slope)",
      "min(share + ROOM, (at_high - box.value[0]) / slope)")),
    ("certificate/image_boxes.py", "(at_low - box.value[1] - ROOM) / slope",
     ("(at_low - box.value[1] + ROOM) / slope", "(at_low - box.value[1]) / slope")),
    ("certificate/curvature.py", "least.sum(axis=1) - rounding", ("least.sum(axis=1) + rounding", "least.sum(axis=1)")),
    ("certificate/kinds/bottleneck.py", "h_x + value + allowance)", ("h_x + value - allowance)", "h_x + value)")),
    ("certificate/kinds/guarded.py", "spent + value - terms * _EPS * size",
     ("spent + value + terms * _EPS * size", "spent + value")),
    ("certificate/kinds/task.py", "h_s + total - spent - allowance", ("h_s + total - spent + allowance",
                                                                      "h_s + total - spent")),
    ("certificate/claim.py", "average = (asked - _READING * _EPS * size) / total",
     ("average = (asked + _READING * _EPS * size) / total",)),
    ("certificate/claim.py", "most = (asked - _READING * _EPS * size) / float(self.weights.sum())",
     ("most = (asked + _READING * _EPS * size) / float(self.weights.sum())",)),
    ("certificate/claim.py", "spent - asked + _READING * _EPS * (size + abs(spent))",
     ("spent - asked - _READING * _EPS * (size + abs(spent))",)),
    ("solving/judging.py", "scope.invariant > question.invariant", ("scope.invariant < question.invariant", "False")),
    ("solving/judging.py", "return alike(scope.guards, guards)", ("return True",)),
    ("solving/judging.py", "scope.guards.attributes) and question.budget > 0.0:",
     ("scope.guards.attributes) and question.budget < 0.0:",)),
    ("solving/judging.py", "(scope.costs is not None) is not (question.costs is not None)",
     ("(scope.costs is not None) is (question.costs is not None)", "False")),
    ("solving/judging.py", "proved.goal - reached if goal.sought_most else reached - proved.goal",
     ("reached - proved.goal if goal.sought_most else reached - proved.goal",
      "proved.goal - reached if goal.sought_most else proved.goal - reached")),
    ("solving/judging.py", "missing <= gap * question.scale + ROUNDING",
     ("missing <= 1.1 * gap * question.scale + ROUNDING", "missing <= 0.9 * gap * question.scale")),
    ("solving/judging.py", "if claimed is Status.OPTIMAL and not proved:",
     ("if claimed is Status.OPTIMAL and proved:",)),
    ("solving/judging.py", "    if not met:\n        return Status.INFEASIBLE",
     ("    if False:\n        return Status.INFEASIBLE",)),
]  # fmt: skip


def dies(place: str, there: str, instead: str) -> bool:
    """Whether the tests fail on the package with this change."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        path = source / "privfunnel" / place
        text = path.read_text(encoding="utf-8")
        if text.count(there) != 1:
            raise SystemExit(f"{place} has {text.count(there)} times {there!r}: say where it went")
        path.write_text(text.replace(there, instead), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(source), "NUMBA_DISABLE_JIT": "1"}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            JUDGING if place in {"solving/judging.py", "certificate/claim.py"} else ROUNDING,
        ]
        return (
            subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode
            == 1
        )


def run() -> int:
    """Count the mutants that die, and name those that live."""
    every = [(place, there, instead) for place, there, others in MUTANTS for instead in others]
    living = [mutant for mutant in every if not dies(*mutant)]
    for place, there, instead in living:
        sys.stdout.write(f"{place}: {instead!r} in place of {there!r} is not noticed\n")
    sys.stdout.write(f"{len(every) - len(living)} of {len(every)} mutants die\n")
    return 1 if living else 0


if __name__ == "__main__":
    sys.exit(run())

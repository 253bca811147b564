"""Mutants of allowances for rounding: each with its sign turned, and each left out. Tests have to notice all of them.

    python tests/house/allowances.py          # "24 of 24 mutants die", or the names of those that live

Each mutant is a copy of the package with one place changed, on which ``tests/certificate/test_rounding.py`` is run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: File below ``certificate``, what stands there, and what takes its place.
MUTANTS: list[tuple[str, str, tuple[str, ...]]] = [
    ("kinds/plain.py", "self.value - (problem.n_x + problem.n_s + _ADDING) * _EPS * size",
     ("self.value + (problem.n_x + problem.n_s + _ADDING) * _EPS * size", "self.value")),
    ("kinds/free.py", "h_c - claimed + rounding", ("h_c - claimed - rounding", "h_c - claimed")),
    ("kinds/distortion.py", "entry = entry - _EPS * (problem.n_s + _ENTRY) * size",
     ("entry = entry + _EPS * (problem.n_s + _ENTRY) * size", "pass")),
    ("kinds/distortion.py", "returned - terms * _EPS * most", ("returned + terms * _EPS * most",)),
    ("kinds/guessing.py", "float(problem.p_x @ scores) + allowance", ("float(problem.p_x @ scores) - allowance",
                                                                     "float(problem.p_x @ scores)")),
    ("kinds/chi_squared.py", "shift = _proved_shift(matrix) + rounding",
     ("shift = _proved_shift(matrix) - rounding",)),
    ("thinning.py", "np.min(highest - prices)) - rounding", ("np.min(highest - prices)) + rounding",)),
    ("thinning.py", "rounding = (n_s + _ADDING) * _EPS * size", ("rounding = -(n_s + _ADDING) * _EPS * size",)),
    ("chain.py", "float(np.max(prices - made)) - rounding", ("float(np.max(prices - made)) + rounding",)),
    ("private_pairs.py", "(value - rounding)", ("(value + rounding)", "(value)")),
    ("image_boxes.py", "min(share + ROOM, (at_high - box.value[0] + ROOM) / slope)",
     ("min(share + ROOM, (at_high - box.value[0] - ROOM) / slope)",
      "min(share + ROOM, (at_high - box.value[0]) / slope)")),
    ("image_boxes.py", "(at_low - box.value[1] - ROOM) / slope",
     ("(at_low - box.value[1] + ROOM) / slope", "(at_low - box.value[1]) / slope")),
    ("curvature.py", "least.sum(axis=1) - rounding", ("least.sum(axis=1) + rounding", "least.sum(axis=1)")),
]  # fmt: skip


def dies(place: str, there: str, instead: str) -> bool:
    """Whether the tests fail on the package with this change."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        path = source / "privfunnel" / "certificate" / place
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
            "tests/certificate/test_rounding.py",
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

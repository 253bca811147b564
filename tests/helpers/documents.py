"""What the tests of the documentation share: code blocks of a page, and the built site."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of one language of a page under docs."""
    text = (DOCS / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def build_site(folder: Path) -> Path:
    """Build the site from a copy of its sources, so that nothing in the checkout changes; skip without zensical.

    Where the environment names a site that was just built, as a whole check does, that is taken.
    """
    if built := os.environ.get("PRIVFUNNEL_SITE"):
        return Path(built)
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("zensical is not installed: make docs installs it")
    for name in ("docs", "src", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("zensical.toml", "CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copyfile(ROOT / name, folder / name)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"

"""Run ``privfunnel reproduce`` in full and put its page and figures under ``docs/``.

    python papers/reproduction.py [--out out/reproduction]

An interrupted run goes on where it stopped. Takes about ten minutes on one core, most of them for the DRS sweeps of the
census table, which are cut after a minute each.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from prose import wrapped

from privfunnel import reproduce

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    """Run, then copy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/reproduction"))
    out = parser.parse_args().out
    reproduce.run(out, tell=print)
    (DOCS / "figures").mkdir(exist_ok=True)
    for figure in (*out.glob("figure-*.png"), *out.glob("figure-*.svg")):
        shutil.copyfile(figure, DOCS / "figures" / figure.name)
    shutil.copyfile(out / "points.csv", DOCS / "figures" / "reproduction-points.csv")
    text = (out / "reproduction.md").read_text("utf-8")
    text = re.sub(r"\((figure-[\w-]+\.png)\)", r"(figures/\1)", text)
    text = text.replace("`points.csv`", "[`reproduction-points.csv`](figures/reproduction-points.csv)")
    (DOCS / "reproduction.md").write_text(wrapped(text), "utf-8")


if __name__ == "__main__":
    main()

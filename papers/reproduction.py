"""Run ``privfunnel reproduce`` in full and put its page and figures under ``docs/``.

    python papers/reproduction.py [--out out/reproduction] [--quick]

An interrupted run goes on where it stopped. Takes about ten minutes on one core, most of them for the DRS sweeps of the
census table, which are cut after a minute each.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from prose import wrapped

from privfunnel.studies import reproduce

DOCS = Path(__file__).resolve().parents[1] / "docs"


def publish(out: Path, docs: Path) -> None:
    """Copy the page, its figures and its points from ``out`` to ``docs``, where the figures have a folder."""
    (docs / "figures").mkdir(parents=True, exist_ok=True)
    for figure in (*out.glob("figure-*.png"), *out.glob("figure-*.svg")):
        shutil.copyfile(figure, docs / "figures" / figure.name)
    shutil.copyfile(out / "points.csv", docs / "figures" / "reproduction-points.csv")
    text = (out / "reproduction.md").read_text("utf-8")
    text = re.sub(r"\((figure-[\w-]+\.png)\)", r"(figures/\1)", text)
    text = text.replace("`points.csv`", "[`reproduction-points.csv`](figures/reproduction-points.csv)")
    (docs / "reproduction.md").write_text(wrapped(text), "utf-8")


def main() -> None:
    """Run, then copy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/reproduction"))
    parser.add_argument("--quick", action="store_true", help="a rehearsal, whose page goes to OUT/docs")
    options = parser.parse_args()
    reproduce.run(options.out, quick=options.quick, tell=print)
    publish(options.out, options.out / "docs" if options.quick else DOCS)


if __name__ == "__main__":
    main()

"""Settings of all tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from privfunnel.app.explorer.workspace import Workspace

# Generated examples are the same in every run, so that whoever sees a failure can repeat it. New ones are looked for
# with HYPOTHESIS_PROFILE=search. How long one takes is the machine's matter, and no failure.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", derandomize=False, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture
def events() -> list[dict[str, Any]]:
    """What the explorer's workspace tells the page."""
    return []


@pytest.fixture
def workspace(tmp_path: Path, events: list[dict[str, Any]]) -> Workspace:
    """An empty workspace of the explorer."""
    from privfunnel.app.explorer.workspace import Workspace  # which needs what other tests do without

    return Workspace(tmp_path, emit=events.append)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace of the explorer with the curve of the heart example."""
    from helpers_explorer import heart
    from privfunnel.app.explorer import jobs as tasks
    from privfunnel.app.explorer.workspace import Workspace

    made = Workspace(tmp_path_factory.mktemp("traced"), emit=lambda event: None)
    heart(made)
    tasks.trace(made, points=6, solver="auto")
    return made


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """End with how to run what was skipped: on a machine that has Python alone, nobody should have to search for it."""
    skipped = len(terminalreporter.stats.get("skipped", ()))
    if skipped:
        terminalreporter.write_line(
            f"{skipped} skipped, each for the reason above. For all that this machine can have: install chromium and "
            "Java, .venv/bin/python -m pip install -r requirements/spark.txt -r requirements/torch.txt "
            "-r requirements/torch-cpu.txt, and make test."
        )

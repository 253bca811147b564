"""What tests of the explorer begin with, besides the workspaces of ``conftest``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privfunnel.app.explorer import examples
from privfunnel.app.explorer import jobs as tasks
from privfunnel.app.explorer.workspace import Workspace

AWKWARD = Path(__file__).parents[1] / "fixtures" / "awkward.csv"
CENSUS_ROLES: dict[str, Any] = dict(examples.EXAMPLES["census-income"].roles)


def heart(workspace: Workspace) -> dict[str, Any]:
    """Load the heart example, with its own roles."""
    table = tasks.example(workspace, "heart-failure")
    return tasks.roles(workspace, **table["roles"])

"""How far a job is, told to the page while somebody waits."""

from __future__ import annotations

import math
import time

from privfunnel.app.explorer.workspace import Workspace
from privfunnel.infra.watching import Progress

NEWS_SECONDS = 0.1  # between two reports of progress, however often the solver has news


class Listener:
    """Passes a solver's news on, not more often than a person can read."""

    def __init__(self, workspace: Workspace) -> None:
        """Report through the workspace."""
        self._workspace = workspace
        self._last = -math.inf

    def __call__(self, news: Progress) -> None:
        """Take a solver's news."""
        if time.monotonic() - self._last >= NEWS_SECONDS:
            self._last = time.monotonic()
            self._workspace.emit({"kind": "progress", **vars(news)})


def tell(workspace: Workspace, done: int, total: int, message: str) -> None:
    """Say what is being done, ``done`` of ``total``; 0 of 0 where that is not known."""
    workspace.emit({"kind": "progress", **vars(Progress(done=done, total=total, message=message))})

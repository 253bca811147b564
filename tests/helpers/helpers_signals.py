"""What a program under test must not inherit from the runner."""

from __future__ import annotations

import signal


def hang_up() -> None:
    """Let SIGHUP act: a runner started with nohup ignores it, and its children would too."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

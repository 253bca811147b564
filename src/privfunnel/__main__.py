"""``python -m privfunnel`` is the command ``privfunnel``, and both begin here."""

import atexit
import contextlib
import os
import signal
import sys
from types import FrameType


def run() -> None:
    """Run the command line; Ctrl-C while it is still being loaded, or has done its work, ends it quietly."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    from privfunnel.app.cli import main
    from privfunnel.infra.signals import own_process

    own_process()
    try:
        main(prog_name="privfunnel")
    except SystemExit as ended:
        if isinstance(ended.code, int) and ended.code - 128 in signal.valid_signals():
            _finish(ended.code)
        raise
    finally:
        # A KeyboardInterrupt that came out of the text of a program, as dataclasses and numba run some, makes Python
        # kill itself by SIGINT at its end, whatever became of it; the next such text lets it forget that.
        exec("")


def _finish(code: int) -> None:
    """End as at the end of a program, but without its last word to libraries.

    A compiled one that was called off in the middle would list there all that it still holds, after our own last line.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _end(number: int, frame: FrameType | None) -> None:
    """End at once: there is nothing to clean up."""
    os._exit(128 + number)


if __name__ == "__main__":
    run()

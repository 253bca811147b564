"""``python -m privfunnel`` is the command ``privfunnel``, and both begin here."""

import os
import signal
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
    finally:
        # A KeyboardInterrupt that came out of the text of a program, as dataclasses and numba run some, makes Python
        # kill itself by SIGINT at its end, whatever became of it; the next such text lets it forget that.
        exec("")


def _end(number: int, frame: FrameType | None) -> None:
    """End at once: there is nothing to clean up."""
    os._exit(128 + number)


if __name__ == "__main__":
    run()

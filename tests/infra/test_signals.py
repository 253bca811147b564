"""Requests to terminate unwind the program, wherever they strike."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from privfunnel.infra.signals import interrupting, raise_requested, terminate_as_exception, unveiled


def strike(number: int) -> None:
    """Send this process a signal and wait for what comes of it."""
    with terminate_as_exception():
        os.kill(os.getpid(), number)
        wait()


def import_and_wait(name: str) -> None:
    with terminate_as_exception():
        assert importlib.import_module(name).done
        wait()


def wait() -> None:
    deadline = time.monotonic() + 120.0
    while time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_request_is_an_exception(name: str) -> None:
    number = getattr(signal, name)
    before = signal.signal(number, signal.SIG_DFL)  # a runner under nohup ignores one of them
    try:
        with pytest.raises(SystemExit) as stopped:
            strike(number)
        assert stopped.value.code == 128 + number
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(("name", "request_"), [("SIGTERM", SystemExit), ("SIGINT", KeyboardInterrupt)])
def test_a_request_during_an_import_waits_for_its_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, request_: type[BaseException]
) -> None:
    """An import that is optional would swallow it: whoever tries one goes on with what an error leaves."""
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    (tmp_path / "struck_while_imported.py").write_text(
        f"import os, signal, time\nos.kill(os.getpid(), signal.{name})\ntime.sleep(0.2)\ndone = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a runner in the background ignores it
    try:
        with pytest.raises(request_):
            import_and_wait("struck_while_imported")
    finally:
        signal.signal(signal.SIGINT, before)
    assert sys.modules["struck_while_imported"].done
    del sys.modules["struck_while_imported"]
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()


def test_a_hangup_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminate_as_exception():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_leave_signals_alone() -> None:
    def handler() -> object:
        with terminate_as_exception():
            return signal.getsignal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(handler).result() == before


def become_another_error() -> None:
    with terminate_as_exception():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            with contextlib.suppress(RuntimeError):  # what a library may make of it
                raise RuntimeError("interrupted") from None
        raise_requested()


def test_a_request_that_became_another_error_is_raised_again() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a runner in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            become_another_error()
    finally:
        signal.signal(signal.SIGINT, before)
    with terminate_as_exception():
        raise_requested()  # there was none in this block


def test_a_long_call_is_called_off_from_another_thread() -> None:
    called = threading.Event()
    with interrupting(lambda: None), interrupting(called.set):
        signal.signal(signal.SIGUSR1, lambda *_: None)
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert called.wait(120.0)
        finally:
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert signal.set_wakeup_fd(-1) == -1
    assert not [thread for thread in threading.enumerate() if thread.name == "signals" and not ended(thread)]


def ended(thread: threading.Thread) -> bool:
    thread.join(120.0)
    return not thread.is_alive()


def test_a_call_that_was_about_to_begin_is_called_off_again() -> None:
    """What it hears too early it forgets: the first calls stand for those."""
    connection, calls = sqlite3.connect(":memory:", check_same_thread=False), []

    def call_off() -> None:
        calls.append(True)
        if len(calls) >= 3:
            connection.interrupt()

    def work() -> None:
        with terminate_as_exception(), interrupting(call_off):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
            connection.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
            ).fetchall()

    with contextlib.closing(connection), pytest.raises(SystemExit) as stopped:
        work()
    assert stopped.value.code == 143


def test_who_listens_already_is_left_alone() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    try:
        with interrupting(lambda: None):
            assert signal.set_wakeup_fd(writing) == writing
    finally:
        assert signal.set_wakeup_fd(-1) == writing
        os.close(reading)
        os.close(writing)


def test_another_thread_can_have_nothing_called_off() -> None:
    def work() -> int:
        with interrupting(lambda: None):
            return threading.active_count()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() == threading.active_count()


@pytest.mark.parametrize("request_", [KeyboardInterrupt(), SystemExit(143)])
def test_a_request_behind_another_error_is_unveiled(request_: BaseException) -> None:
    between = ValueError("made of it by a library")
    between.__cause__ = request_
    with pytest.raises(type(request_)) as raised, unveiled():
        raise SystemError("made of that by another") from between
    assert raised.value is request_
    with pytest.raises(ValueError, match="no request at all"), unveiled():
        raise ValueError("no request at all") from RuntimeError("either")


def call_back(action: Callable[[], None], printed: list[type[BaseException] | None], *, then: bool) -> None:
    """Let C call ``action`` in a block that hears signals, and ``then`` wait; collect what is only ``printed``."""
    hook = sys.unraisablehook
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a runner in the background ignores it
    sys.unraisablehook = lambda unraisable: printed.append(unraisable.exc_type)
    try:
        with terminate_as_exception():
            ctypes.CFUNCTYPE(None)(action)()
            if then:
                wait()
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGINT, before)


def test_a_request_that_a_callback_swallowed_comes_again() -> None:
    """Loading compiled kernels calls back from C, where Python can only print an exception."""
    printed: list[type[BaseException] | None] = []
    with pytest.raises(KeyboardInterrupt):
        call_back(lambda: signal.raise_signal(signal.SIGINT), printed, then=True)
    assert not printed


def test_other_errors_of_a_callback_are_printed_as_ever() -> None:
    printed: list[type[BaseException] | None] = []
    call_back(lambda: [].clear(0), printed, then=False)  # type: ignore[call-arg]
    assert printed == [TypeError]

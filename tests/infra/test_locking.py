"""Locks let one in at a time, and are gone when nobody needs them any more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from privfunnel.infra import locking
from privfunnel.infra.locking import locked, tidy


def test_one_at_a_time_while_locks_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a lock that is removed meanwhile makes a new one, and never two hold one."""
    monkeypatch.setattr(locking, "BETWEEN", 0.0005)
    path = tmp_path / "count"
    path.write_text("0")

    def count(_: int) -> None:
        for _ in range(25):
            with locked(path):
                before = int(path.read_text())
                path.write_text(str(before + 1))
            tidy(path)  # as who comes along may do at any time

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    assert path.read_text() == "200"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_at_any_moment_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> bool:
        monkeypatch.undo()
        raise KeyboardInterrupt

    path = tmp_path / "ledger.json"
    for name in ("take", "_is"):  # right after the lock was made, and right after it was taken
        monkeypatch.setattr(locking, name, interrupt)
        with pytest.raises(KeyboardInterrupt), locked(path):
            raise AssertionError("nobody gets in")
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), locked(path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_who_is_interrupted_while_waiting_leaves_the_lock_to_its_holder(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    path = tmp_path / "ledger.json"
    with locked(path):
        with pytest.raises(KeyboardInterrupt), locked(path, interrupt):
            raise AssertionError("nobody gets in")
        tidy(path)
        assert [each.name for each in tmp_path.iterdir()] == [".ledger.json.lock"]
    assert list(tmp_path.iterdir()) == []

"""The examples in the docstrings are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import privfunnel
from privfunnel.errors import MissingExtraError

PACKAGE = Path(privfunnel.__file__).parent


def modules_with_examples() -> list[str]:
    return sorted(
        ".".join(["privfunnel", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")
        for path in PACKAGE.rglob("*.py")
        if ">>> " in path.read_text("utf-8")
    )


def test_there_are_examples() -> None:
    assert "privfunnel.data.instances" in modules_with_examples()


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_are_true(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except MissingExtraError as missing:
        pytest.skip(f"cannot be imported here: {missing}")
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0

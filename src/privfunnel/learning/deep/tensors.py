"""The door to PyTorch: every module of this room takes it from here, so that its absence is told once, with advice."""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

from privfunnel.errors import InvalidInputError, need

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message=".*NumPy.*")  # builds that look for another one say so
    torch: Any = need("torch", "deep")

#: A tensor of PyTorch; typed by hand, since this package is checked where PyTorch is not installed.
Tensor: TypeAlias = Any
#: Name to stacked parameters, each (B, …): one slice a member.
Params: TypeAlias = dict[str, Tensor]


def choose_device(device: str) -> str:
    """The device to train on.

    Args:
        device: ``"auto"`` (a GPU where there is one), ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.

    Raises:
        InvalidInputError: PyTorch sees no GPU here, or there is no such device.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        return device
    if not isinstance(device, str) or not device.startswith("cuda"):
        raise InvalidInputError(f"device={device!r} is not known: use 'auto', 'cpu' or 'cuda'")
    if not torch.cuda.is_available():
        raise InvalidInputError(
            f"device={device!r}, but PyTorch sees no GPU here: use device='auto' or 'cpu', which is slower"
        )
    return device

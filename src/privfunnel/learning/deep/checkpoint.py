"""Where a run stands, and what it learnt, as safetensors files with a JSON header: no pickles, whole or not at all."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from privfunnel.errors import InvalidInputError, need
from privfunnel.infra.storage import (
    PRIVATE,
    AnyPath,
    Document,
    check_schema,
    heading,
    open_input,
    write_whole,
)
from privfunnel.learning.deep.tensors import Tensor

SCHEMA = "privfunnel/deep"


def save_tensors(path: AnyPath, tensors: dict[str, Tensor], about: Document) -> None:
    """Write tensors and JSON about them to one file, for the user alone: weights remember rows.

    Args:
        path: The file.
        tensors: By name.
        about: JSON-ready; kept in the file's header.
    """
    whole = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    header = {"privfunnel": json.dumps(heading(SCHEMA) | about, allow_nan=False)}
    data = need("safetensors.torch", "deep").save(whole, metadata=header)
    write_whole(path, lambda stream: stream.write(data), mode=PRIVATE)


def load_tensors(path: AnyPath) -> tuple[dict[str, Tensor], Document]:
    """Read what :func:`save_tensors` wrote.

    Raises:
        InvalidInputError: The file cannot be read, or is none of this package's.
    """
    safetensors = need("safetensors", "deep")
    try:
        open_input(
            path, most=sys.maxsize
        ).close()  # a pipe would be waited for; only the header is read whole
        with safetensors.safe_open(str(path), framework="pt", device="cpu") as opened:
            header = json.loads((opened.metadata() or {}).get("privfunnel", "null"))
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  (no mapping)
    except InvalidInputError:
        raise
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise InvalidInputError(
            f"cannot read {str(path)!r} ({error}): give a file written by save"
        ) from error
    check_schema(header, SCHEMA)
    return tensors, header


def write(path: Path, setting: Document, state: Document) -> None:
    """Write the state of a run of some setting."""
    tensors: dict[str, Tensor] = {f"params/{name}": value for name, value in state["params"].items()}
    tensors |= {f"best_params/{name}": value for name, value in state["best_params"].items()}
    for name, (mean, square) in state["moments"].items():
        tensors |= {f"mean/{name}": mean, f"square/{name}": square}
    tensors |= {f"losses/{i:06d}": value for i, value in enumerate(state["losses"])}
    tensors |= {name: state[name] for name in ("best", "waited", "epochs")}
    save_tensors(path, tensors, {"setting": setting, "turns": state["turns"], "epoch": state["epoch"]})


def read(path: Path, setting: Document, device: str) -> Document:
    """The state of a run of this very setting.

    Raises:
        InvalidInputError: The file is another run's.
    """
    tensors, header = load_tensors(path)
    if header.get("setting") != json.loads(json.dumps(setting)):
        raise InvalidInputError(
            f"the checkpoint {str(path)!r} is of a run with other settings: give another file, or remove it"
        )
    placed = {name: value.to(device) for name, value in tensors.items()}

    def under(folder: str) -> dict[str, Tensor]:
        return {name.partition("/")[2]: v for name, v in placed.items() if name.startswith(f"{folder}/")}

    params, means, squares = under("params"), under("mean"), under("square")
    losses = under("losses")
    return {
        "params": params,
        "best_params": under("best_params"),
        "moments": {name: (means[name], squares[name]) for name in params},
        "losses": [losses[name] for name in sorted(losses)],
        **{name: placed[name] for name in ("best", "waited", "epochs")},
        "turns": {name: int(turn) for name, turn in header["turns"].items()},
        "epoch": int(header["epoch"]),
    }

"""The kinds of proofs: one module each, which registers its body by being imported here.

A new kind is a new module in this folder, with a frozen :class:`~privfunnel.certificate.proof.Body`.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

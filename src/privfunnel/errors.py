"""Errors and warnings of privfunnel, and the door to its optional dependencies.

The exception tree::

    PrivFunnelError
    ├── InvalidInputError (ValueError)     a table, channel, option or file that cannot be used
    │   └── UnbinnedError                  columns with too many values; knows bins for them
    ├── InfeasibleError (ValueError)       more disclosure asked for than H(X)
    ├── SolverError (RuntimeError)         a solver ended without a usable channel
    ├── CertificateError                   a certificate that does not prove what it claims
    └── MissingExtraError (ImportError)    an optional dependency is not installed

    PrivFunnelWarning (UserWarning)
    ├── ConvergenceWarning                 the best restart stopped before it converged
    ├── SmallSampleWarning                 too few rows a cell for the plug-in estimates
    ├── IdentifierWarning                  a column tells people apart, or people have several rows
    ├── ReadingWarning                     how a file was read, where it may have been meant otherwise
    ├── GuaranteeWarning                   what was asked for weakens or voids the privacy guarantee
    └── CollapsedReleaseWarning            a learnt release tells as good as nothing

Every message is one line that names the offending value and the remedy, so that a program may print it as it is.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType


class PrivFunnelError(Exception):
    """Base of every error that privfunnel raises on purpose."""


class InvalidInputError(PrivFunnelError, ValueError):
    """A table, channel, option or file that cannot be used as given."""


class UnbinnedError(InvalidInputError):
    """Columns have too many values to be categories.

    Attributes:
        bins: A rule for each of them that may be used as it is.
    """

    def __init__(self, message: str, bins: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.bins = dict(bins or {})


class InfeasibleError(PrivFunnelError, ValueError):
    """More disclosure was asked for than the entropy of the public data allows."""


class SolverError(PrivFunnelError, RuntimeError):
    """A solver ended without a usable channel."""


class CertificateError(PrivFunnelError):
    """A certificate does not prove the bound it claims, or belongs to another problem."""


class MissingExtraError(PrivFunnelError, ImportError):
    """An optional dependency is needed and not installed."""


class PrivFunnelWarning(UserWarning):
    """Base of every warning that privfunnel issues."""


class ConvergenceWarning(PrivFunnelWarning):
    """The answer is feasible, but the run stopped before its convergence test was met."""


class SmallSampleWarning(PrivFunnelWarning):
    """There are too few rows a cell for plug-in information estimates to be trusted."""


class IdentifierWarning(PrivFunnelWarning):
    """A column tells people apart, or people have several rows each."""


class ReadingWarning(PrivFunnelWarning):
    """How a file was read, where it may have been meant otherwise."""


class GuaranteeWarning(PrivFunnelWarning):
    """What was asked for weakens or voids the privacy guarantee."""


class CollapsedReleaseWarning(PrivFunnelWarning):
    """A learnt release tells as good as nothing: that it leaks nothing is no success."""


def need(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or fail with advice.

    Args:
        module: Name of the module to import, e.g. ``"duckdb"``.
        extra: The extra of privfunnel that brings it, e.g. ``"tables"``.

    Returns:
        The imported module.

    Raises:
        MissingExtraError: The module cannot be found; the message says what to install.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        root = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != root:
            raise  # the module is there, something it needs is not: not ours to explain away
        raise MissingExtraError(
            f"this needs the package {root!r}, which is not installed: pip install 'privfunnel[{extra}]'"
        ) from error

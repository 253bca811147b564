"""What is known in closed form: informations of a linear Gaussian encoder, and PPAN's optimum on a symmetric pair."""

from __future__ import annotations

import numpy as np

from privfunnel import measures
from privfunnel.errors import InvalidInputError
from privfunnel.learning.deep.codes import bounded
from privfunnel.learning.deep.exact import Informations
from privfunnel.learning.deep.methods.base import Method
from privfunnel.learning.deep.tensors import Params
from privfunnel.measures import Array


def linear_informations(method: Method, params: Params, mixing: Array) -> tuple[Informations, Array]:
    """Exact informations of a linear encoder with additive Gaussian noise, and the posterior variances that it leaves.

    Args:
        method: With a Gaussian code whose noise is additive, and no hidden layers.
        params: Parameters of one member.
        mixing: B, shape (private, public).

    Returns:
        The informations, and the eigenvalues of the posterior covariance of X, increasing, shape (public,).
    """
    if method.hidden or not getattr(method.code, "additive", False):
        raise InvalidInputError(
            "the encoder is not linear with additive noise: hidden=(), GaussianCode(additive=True)"
        )
    a = params["encoder.0.weight"][0].double().cpu().numpy().T
    spread = bounded(params["noise.0.bias"][0, 0].double().cpu()).numpy()
    noise = np.diag(np.exp(2.0 * spread))
    n_x = a.shape[1]
    of_x = np.block([[np.eye(n_x), a.T], [a, a @ a.T + noise]])
    of_s = np.block(
        [[mixing @ mixing.T + np.eye(len(mixing)), mixing @ a.T], [a @ mixing.T, a @ a.T + noise]]
    )
    posterior = np.linalg.inv(np.eye(n_x) + a.T @ np.linalg.inv(noise) @ a)
    found = Informations(
        measures.normal_information(of_x, n_x), measures.normal_information(of_s, len(mixing))
    )
    return found, np.linalg.eigvalsh(posterior)


def symmetric_pair_leakage(size: int, error: float, distortion: float) -> float:
    """Least I(S;Y) of a symmetric pair with ``P(Y ≠ X) ≤ distortion``, in nats, in closed form.

    The problem is convex, and symmetric under permutations of the alphabet, so that a symmetric channel is optimal:
    Y ≠ X for a share of min(distortion, 1 − 1/size), spread evenly.
    """
    far = min(distortion, 1.0 - 1.0 / size)
    wrong = error + far - error * far * size / (size - 1)
    joint = np.full((size, size), wrong / (size - 1))
    np.fill_diagonal(joint, 1.0 - wrong)
    return float(measures.mutual_information(joint / size))

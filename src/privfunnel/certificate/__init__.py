"""Certificates: proofs of a lower bound on the funnel, checked by plain arithmetic without the solver that made them.

For any prices a (M,) and slope μ ≥ 0, writing F(w) = −H(Pw) + μ H(w) − a·w over posteriors w, P = p(s|x),

    L(R) ≥ H(S) + a·p_x − μ (H(X) − R) + min_w F(w)      for every R  (nats).

What has to be proved is a lower bound on min F. Where the bipartite graph of P's nonzeros falls into components,
each has its own minimum f_c, and min F = −(1−μ) log Σ exp(−f_c/(1−μ)) for μ < 1, min f_c for μ ≥ 1. One component is
proved by a tree of boxes l ≤ w ≤ u that covers its simplex. A node holds multipliers q (normalised here, so any q is
safe) and ν: with Σ t log t ≥ q·t and e_i(w) = (p_i·q − a_i − ν) w − μ w log w, which is concave,

    F(w) ≥ ν + Σ_i e_i(w_i) ≥ ν + Σ_i min(e_i(l_i), e_i(u_i)).

If that reaches the claim the box is done. Otherwise the ends of [l_i, u_i] where e_i alone lifts the sum to the
claim are cut off, and the rest is handed to the node's children. Every bound is lowered by a rounding allowance first.

Some minimiser of F also leaves out one of any two *rivals*, see :func:`rivalry`, which shrinks boxes further, and with
a hundred symbols or more makes boxes of whole groups of rivals, see :mod:`.cliques`.
"""

from __future__ import annotations

from privfunnel.certificate.cells import cell_columns, spread_within
from privfunnel.certificate.chain import ChainProof, Step, chain_prices, check_chain, flat_prices, halves_of
from privfunnel.certificate.checker import SIMPLEX_SLACK, check
from privfunnel.certificate.claim import Claim, Quantity, Scope, Values
from privfunnel.certificate.cliques import CliqueProof, check_cliques
from privfunnel.certificate.exclusion import cliques_of, rivalry, rivals
from privfunnel.certificate.file import load_bundle, save_bundle
from privfunnel.certificate.kinds.bottleneck import BottleneckBody
from privfunnel.certificate.kinds.chi_squared import ChiSquaredBody
from privfunnel.certificate.kinds.distortion import DistortionBody
from privfunnel.certificate.kinds.free_disclosure import FreeBody, FreeProof, FreeTree
from privfunnel.certificate.kinds.guarded import GuardedBody
from privfunnel.certificate.kinds.guessing import GuessingBody
from privfunnel.certificate.kinds.plain import PlainBody, combine, components
from privfunnel.certificate.kinds.task import TaskBody
from privfunnel.certificate.pairs import PairsProof, check_pairs
from privfunnel.certificate.parts import PARTS, Part
from privfunnel.certificate.private_pairs import least_of_private_pairs
from privfunnel.certificate.proof import KINDS, Body, Certificate, verify_all
from privfunnel.certificate.supports import FEWEST, MOST, SupportsProof, check_supports, search
from privfunnel.certificate.thinning import ThinProof, check_thinning, thinned, thinning_prices
from privfunnel.certificate.tree import LEAF, SHRINK, Case, Proof

__all__ = [
    "FEWEST",
    "KINDS",
    "LEAF",
    "MOST",
    "PARTS",
    "SHRINK",
    "SIMPLEX_SLACK",
    "Body",
    "BottleneckBody",
    "Case",
    "Certificate",
    "ChainProof",
    "ChiSquaredBody",
    "Claim",
    "CliqueProof",
    "DistortionBody",
    "FreeBody",
    "FreeProof",
    "FreeTree",
    "GuardedBody",
    "GuessingBody",
    "PairsProof",
    "Part",
    "PlainBody",
    "Proof",
    "Quantity",
    "Scope",
    "Step",
    "SupportsProof",
    "TaskBody",
    "ThinProof",
    "Values",
    "cell_columns",
    "chain_prices",
    "check",
    "check_chain",
    "check_cliques",
    "check_pairs",
    "check_supports",
    "check_thinning",
    "cliques_of",
    "combine",
    "components",
    "flat_prices",
    "halves_of",
    "least_of_private_pairs",
    "load_bundle",
    "rivalry",
    "rivals",
    "save_bundle",
    "search",
    "spread_within",
    "thinned",
    "thinning_prices",
    "verify_all",
]

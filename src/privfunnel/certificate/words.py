"""What a claim says, for people."""

from __future__ import annotations

from privfunnel import measures
from privfunnel.certificate.claim import Claim, Quantity


def told(claim: Claim, unit: str) -> str:
    """What is proved, in ``unit``, one of nats and bits."""
    scope, per = claim.scope, measures.nats_per(unit)
    if scope.quantity is Quantity.GUESSES:
        return f"P(X guessed) ≤ {-claim.constant:.9f} + {float(claim.weights.sum()):.9f} P(S guessed)"
    if scope.quantity is Quantity.CHI_SQUARED:
        return f"χ²(S;Y) ≥ {claim.constant:.9f} + {claim.disclosure:.9f} χ²(X;Y)"
    if claim.turned:
        return f"I(S;Y) ≤ {-claim.constant / per:.9f} + {-claim.disclosure:.9f} R"
    if scope.costs is not None:
        kept = ", p(y) = p(x)" if scope.invariant else ""
        return f"leakage ≥ {claim.constant / per:.9f} − {claim.distortion / per:.9f} D {unit}{kept}"
    if scope.guards is not None:
        return _guarded(claim, unit)
    if scope.tasks is not None:
        if scope.zero:
            return f"I(U;Y) ≤ {claim.most_utility(0.0) / per:.9f} without leakage"
        return f"L ≥ {claim.constant / per:.9f} + {claim.utility:.9f} I(U;Y)"
    if scope.zero:
        return f"disclosure ≤ {claim.most_disclosure(0.0) / per:.9f} {unit} without leakage"
    return f"L(R) ≥ {claim.constant / per:.9f} + {claim.disclosure:.9f} R"


def _guarded(claim: Claim, unit: str) -> str:
    """What is proved of the releases that guards allow."""
    per, scope, guards = measures.nats_per(unit), claim.scope, claim.scope.guards
    assert guards is not None
    who = guards.conditions
    if not claim.bounds_leakage:
        nothing = " that tells them nothing" if scope.zero and not guards.attributes else ""
        if claim.utility <= 0.0:
            return f"disclosure ≤ {claim.most_disclosure(0.0) / per:.6g} {unit}{nothing}, {who}"
        besides = f" − {claim.disclosure / claim.utility:.6g} R" if claim.disclosure > 0.0 else ""
        return f"utility ≤ {claim.most_utility(0.0) / per:.6g}{besides} {unit}{nothing}, {who}"
    total, measure = float(claim.weights.sum()), guards.measure
    if measure.in_nats and not measure.worst_value:
        return f"leakage ≥ {claim.constant / total / per:.6g}{_along(claim, 1.0 / total)} {unit}, {who}"
    line = f"{claim.constant / total:.6g}{_along(claim, per / total)}"
    name = "exp(leakage in nats)" if measure.worst_value else "leakage"
    return f"{name} ≥ {line}, R in {unit}, {who}"


def _along(claim: Claim, per: float) -> str:
    """The terms of the line that grow, each slope times ``per``."""
    utility = f" + {claim.utility * per:.6g} I(U;Y)" if claim.scope.tasks is not None else ""
    disclosure = f" + {claim.disclosure * per:.6g} R" if claim.disclosure > 0.0 or not utility else ""
    return disclosure + utility

"""How accelerated AEM lengthens its steps without losing a guarantee of the plain iteration.

Every new point is checked before it is taken, so that all of these are safe:

- *Over-relaxation.* The step u ∝ u·exp(η (λ log w − Σ s log t)) with η ≥ 1 is η times as long. The linearised
  constraint does not involve η: the new point discloses at least R whatever η is. The step minimises a
  majoriser of the leakage as long as 1/η is at least the local share ρ = (leakage − its linearisation) / D(new
  ‖ old), which is at most 1 (the plain step) and small where S tells little about X. Each step measures ρ and
  the next one takes η = SAFETY / ρ.
- *Momentum.* The step starts at log u + β (log u − log u before) with Nesterov's β = (k − 1)/(k + 2). That
  point need not be feasible; the one after the step is, because G(λ) ≥ 0 gives I(X;Y) ≥ R wherever the step started.
- *Inexact roots.* Far from the end G(λ) need not be 0 to the last digit: any G between 0 and a share of the
  last descent will do.

A step that does not lower the leakage is taken back: momentum is dropped first, then η is halved, down to the
plain step. When that does not lower the leakage either, the run has converged to the last digit.

Where a run starts matters more than how fast it goes. Accelerated runs *ramp up* the disclosure: they spend a
while at each of :data:`RAMP` times R, and between two levels the channel is mixed with a little of its random
start (entries that died may come back) and with its anchor until the next level is met. One run in
:data:`DIRECT` starts at R itself: where the best channels at R are unlike those below it, the ramp leads
astray. Restarts whose leakage ranks low are retired.
"""

from __future__ import annotations

#: η times the measured ρ; below 1 because momentum needs more room than a single step.
SAFETY = 0.5
#: η at most, and how much it may grow in one step.
LONGEST = 100.0
GROWTH = 1.5
#: Share of the last descent that G(λ) may exceed 0 by.
INEXACT = 0.1
#: η and that excess are differences of nearly equal numbers, good to a few digits near the end. Both are rounded to
#: this many values per octave, so that backends whose last digits differ take the same steps.
GRID = 4.0

#: Levels of the disclosure, as shares of R, before R itself.
RAMP = (0.9, 0.95, 0.975)
#: Every so many restarts one goes to R directly.
DIRECT = 2
#: Share of the random start that is mixed in between two levels.
REVIVAL = 0.1
#: Iterations at a level: at most this, and at most ``max_steps`` over this.
LEVEL_STEPS = 25
LEVEL_DIVISOR = 8
#: Of n restarts, n over this go on to R, and n over this to the end; never fewer than LEAST_KEPT.
KEPT_AT_R = 3
KEPT_TO_THE_END = 10
LEAST_KEPT = 2


def level_steps(max_steps: int) -> int:
    """Iterations a run spends at each level of the ramp."""
    return max(1, min(LEVEL_STEPS, max_steps // LEVEL_DIVISOR))


def kept(restarts: int, divisor: int) -> int:
    """How many of ``restarts`` go on."""
    return min(restarts, max(LEAST_KEPT, -(-restarts // divisor)))


def level_of(restart: int, level: float) -> float:
    """The level at which a restart runs when the ramp is at ``level``."""
    return 1.0 if restart % DIRECT == 0 else level

"""The envelope of achieved points, and what convexity proves from below."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privfunnel as pf
from privfunnel.model import channels
from privfunnel.model.envelope import Envelope, convex_bound, lower_envelope
from strategies import channels_for, problems

coordinates = st.floats(-2.0, 2.0).map(lambda v: round(v, 3))


def test_the_envelope_leaves_out_what_lies_on_or_above_a_chord() -> None:
    points = [(0, 0), (1, 1), (1, 0.5), (2, 2), (0.5, 0.4), (2, 3), (1.5, 1.25)]
    assert lower_envelope(*zip(*points, strict=True)).tolist() == [0, 2, 3]


@given(st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=12))
def test_the_envelope_is_the_largest_convex_function_below_the_points(
    points: list[tuple[float, float]],
) -> None:
    envelope = Envelope.of(points)
    x, y = np.array(points).T
    assert (np.diff(envelope.disclosure) > 0.0).all()
    assert (envelope.value(x) <= y + 1e-12).all()
    assert envelope.disclosure[[0, -1]].tolist() == [x.min(), x.max()]
    if len(envelope.index) > 2:
        slopes = np.diff(envelope.leakage) / np.diff(envelope.disclosure)
        assert (np.diff(slopes) > 0.0).all()
    assert [points[i] for i in envelope.index] == list(
        zip(envelope.disclosure, envelope.leakage, strict=True)
    )


@given(problems(min_x=2), st.data())
def test_its_channels_achieve_it(problem: pf.Problem, data: st.DataObject) -> None:
    found = [data.draw(channels_for(problem)) for _ in range(3)]
    found += [channels.constant(problem.n_x), channels.identity(problem.n_x)]
    envelope = Envelope.of([problem.evaluate(channel) for channel in found], found)
    for share in (0.0, 0.3, 0.8, 1.0):
        disclosure = share * problem.disclosure_ceiling
        point = problem.evaluate(envelope.channel(disclosure))
        assert point.disclosure == pytest.approx(disclosure, abs=2e-9)
        assert point.leakage == pytest.approx(float(envelope.value(disclosure)), abs=2e-9)


def test_a_vertex_is_its_own_channel_and_a_segment_has_one_slope() -> None:
    problem = pf.Problem([[4, 1, 2], [1, 3, 2]])
    ends = [channels.constant(3), channels.identity(3)]
    envelope = Envelope.of([problem.evaluate(channel) for channel in ends], ends)
    assert envelope.vertex(5e-10) == 0
    assert envelope.channel(5e-10) is ends[0]
    assert envelope.vertex(0.1) is None
    left, right, weight = envelope.neighbours(0.25 * problem.disclosure_ceiling)
    assert (left, right, weight) == (0, 1, pytest.approx(0.25))
    assert envelope.slope(0.1) == problem.leakage_ceiling / problem.disclosure_ceiling
    alone = Envelope.of([(0.0, 0.0), (0.0, 1.0)], [channels.constant(1)] * 2)
    assert (alone.neighbours(0.0), alone.slope(0.0), float(alone.value(0.0))) == ((0, 0, 0.0), 0.0, 0.0)


def test_chords_bound_a_convex_function_beyond_the_points_that_are_known() -> None:
    """L(R) = R² is known at 0, 1/4 and 1/2: below it are the first chord, carried on, and slope 1 through the last."""
    known = np.array([0.0, 0.25, 0.5])
    at = np.linspace(0.0, 0.5, 21)
    bound = convex_bound(at, (known, known**2), (known, known**2))
    assert (bound <= at**2 + 1e-15).all()
    beyond = at > 0.25
    np.testing.assert_allclose(bound[beyond][:-1], np.maximum(
        0.0625 + 0.25 * (at[beyond][:-1] - 0.25), 0.25 + 1.0 * (at[beyond][:-1] - 0.5)
    ))  # fmt: skip
    assert bound[-1] == pytest.approx(0.25)


@given(st.floats(0.0, 1.0), st.lists(st.floats(0.0, 0.05), min_size=5, max_size=5))
def test_loose_ends_prove_less_but_never_too_much(at: float, slack: list[float]) -> None:
    x = np.linspace(0.0, 1.0, 5)
    truth = x**2 / 2.0
    loose = np.array(slack)
    bound = convex_bound(at, (x, truth + loose), (x, truth - loose))
    assert bound <= at**2 / 2.0 + 1e-12
    assert bound <= convex_bound(at, (x, truth), (x, truth)) + 1e-12

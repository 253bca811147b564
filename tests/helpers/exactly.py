"""Judges that do not round: linear algebra in fractions, entropies in fifty digits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

Row = list[Fraction]

DIGITS = 50


def entropy(probabilities: Sequence[Fraction]) -> Decimal:
    """Entropy in nats of numbers that sum to 1."""
    with localcontext() as context:
        context.prec = DIGITS
        total = Decimal(0)
        for p in probabilities:
            if p > 0:
                value = Decimal(p.numerator) / Decimal(p.denominator)
                total -= value * value.ln()
        return total


def fractions(table: np.ndarray) -> list[Row]:
    """The numbers of a table exactly, divided by their sum."""
    rows = [[Fraction(float(value)) for value in row] for row in table]
    total = sum(map(sum, rows), Fraction(0))
    return [[value / total for value in row] for row in rows]


def information(joint: list[Row]) -> Decimal:
    """Mutual information in nats of a joint table of fractions that sum to 1."""
    rows, columns = [sum(row) for row in joint], [sum(column) for column in zip(*joint, strict=True)]
    cells = [value for row in joint for value in row]
    with localcontext() as context:
        context.prec = DIGITS
        return entropy(rows) + entropy(columns) - entropy(cells)  # type: ignore[arg-type]


def eliminate(rows: list[Row]) -> list[Row]:
    """Gauss and Jordan: the reduced rows that are not 0."""
    rows, done = [row[:] for row in rows], 0
    for column in range(len(rows[0])):
        pivot = next((i for i in range(done, len(rows)) if rows[i][column] != 0), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        rows[done] = [value / rows[done][column] for value in rows[done]]
        for i, row in enumerate(rows):
            if i != done and row[column] != 0:
                rows[i] = [a - row[column] * b for a, b in zip(row, rows[done], strict=True)]
        done += 1
        if done == len(rows):
            break
    return rows[:done]


def free_disclosure(p_sx: np.ndarray) -> float:
    """R₀ of exactly these floating-point numbers: all vertices in fractions, then one small linear program."""
    joint = fractions(p_sx)
    p_s, p_x = [sum(row) for row in joint], [sum(column) for column in zip(*joint, strict=True)]
    n_x = len(p_x)
    deviation = [[value / p_x[x] - p_s[s] for x, value in enumerate(row)] for s, row in enumerate(joint)]
    rows = eliminate([*deviation, [Fraction(1)] * n_x])
    vertices = []
    for support in itertools.combinations(range(n_x), len(rows)):
        system = [
            [*(row[x] for x in support), sum(a * b for a, b in zip(row, p_x, strict=True))] for row in rows
        ]
        solved = eliminate(system)
        if len(solved) == len(rows) and all(row[i] == 1 for i, row in enumerate(solved)):
            values = [row[-1] for row in solved]
            if min(values) >= 0:
                vertex = [Fraction(0)] * n_x
                for x, value in zip(support, values, strict=True):
                    vertex[x] = value
                vertices.append(vertex)
    costs = [float(entropy(vertex)) for vertex in vertices]
    table = np.array([[float(value) for value in vertex] for vertex in vertices])
    program = linprog(costs, A_eq=table.T, b_eq=[float(p) for p in p_x])
    return float(entropy(p_x)) - float(program.fun)  # type: ignore[arg-type]

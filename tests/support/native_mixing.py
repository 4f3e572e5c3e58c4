"""What the decode core's int8 does to groups of 32 inputs before it rounds them, in float64."""

from __future__ import annotations

import numpy as np

from paradraft.core.arrays import DoubleArray

GROUP = 32  # inputs that share a scale


def in_groups(lines: np.ndarray) -> DoubleArray:
    """Return lines [N, inputs] as [N, groups, GROUP]; inputs that are missing are zeros."""
    padded = np.pad(lines.astype(np.float64), ((0, 0), (0, -lines.shape[1] % GROUP)))
    groups: DoubleArray = padded.reshape(len(lines), -1, GROUP)
    return groups


def mixed(lines: np.ndarray) -> DoubleArray:
    """Return groups of lines, each multiplied by the Hadamard matrix of its order; lengths and products stay."""
    matrix = np.ones((1, 1))
    while len(matrix) < GROUP:
        matrix = np.kron(np.array([[1.0, 1.0], [1.0, -1.0]]), matrix)
    groups: DoubleArray = in_groups(lines) @ matrix / np.sqrt(GROUP)
    return groups

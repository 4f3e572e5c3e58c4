from __future__ import annotations

import pytest
import torch

from paradraft.models.norms import RmsNorm


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 6e-3), (torch.float64, 1e-12)]
)
@pytest.mark.parametrize(
    "shape", [(1, 48), (7, 48), (16, 48), (17, 48), (100, 48), (128, 48), (300, 48), (3, 4, 16), (130, 4, 16)]
)
@pytest.mark.parametrize("outlier", [0.0, 3000.0])
def test_lines_are_divided_by_their_root_mean_square(dtype, tolerance, shape, outlier):
    torch.manual_seed(0)
    lines = torch.randn(shape).to(dtype)
    lines[..., 5] += outlier  # massive activations are common in the residual stream
    weight = torch.randn(shape[-1]).to(dtype)
    wide = lines.double()
    expected = wide / (wide.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    ours = RmsNorm(weight, 1e-5)(lines)
    assert ours.dtype == dtype
    assert ours.shape == lines.shape
    error = (ours.double() - expected).abs().max() / expected.abs().max()
    assert error < tolerance


def test_epsilon_keeps_small_lines_small():
    lines = torch.full((2, 8), 1e-4)
    torch.testing.assert_close(RmsNorm(torch.ones(8), 1e-5)(lines), lines / (1e-8 + 1e-5) ** 0.5)

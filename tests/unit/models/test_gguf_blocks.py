from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from paradraft.models.gguf.blocks import MatrixReader, dequantize, read_tensor
from paradraft.models.gguf.file import map_file
from paradraft.models.stored import EVERY
from paradraft.models.tensors import tensor_of
from support.gguf_files import TINY, write_gguf
from support.slow_blocks import SCALES_AT, decode_block

CAN_QUANTIZE = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
STEPS = {"Q8_0": 127, "Q4_0": 8, "Q4_1": 15, "Q5_0": 16, "Q5_1": 31}


def random_blocks(kind: str, count: int) -> bytes:
    """Any bytes are a block, as long as its scales are numbers."""
    rng = np.random.default_rng(len(kind) + count)
    size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]][1]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in SCALES_AT[kind]:
        scales = rng.uniform(-2, 2, count).astype(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(count, 2)
    return blocks.tobytes()


@pytest.mark.parametrize("kind", sorted(SCALES_AT))
def test_blocks_decode_to_the_values_of_the_format(kind: str) -> None:
    size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]][1]
    raw = random_blocks(kind, 7)
    slow = [value for at in range(0, len(raw), size) for value in decode_block(kind, raw[at : at + size])]
    fast = dequantize(np.frombuffer(raw, dtype=np.uint8), GGMLQuantizationType[kind])
    np.testing.assert_allclose(fast, np.array(slow), rtol=1e-5, atol=1e-5)


def test_more_blocks_than_are_decoded_at_once_come_out_in_order() -> None:
    raw = np.frombuffer(random_blocks("Q4_1", 5000), dtype=np.uint8)
    whole = dequantize(raw, GGMLQuantizationType.Q4_1)
    last = dequantize(raw[-20:], GGMLQuantizationType.Q4_1)
    assert len(whole) == 5000 * 32
    np.testing.assert_array_equal(whole[-32:], last)


@pytest.mark.parametrize("kind", CAN_QUANTIZE)
def test_a_quantised_matrix_comes_back_within_half_a_step(kind: str, tmp_path: Path) -> None:
    values = np.random.default_rng(3).standard_normal((6, 64)).astype(np.float32)
    path = write_gguf(tmp_path / "a.gguf", TINY, {"output.weight": values}, kind=GGMLQuantizationType[kind])
    data, header = map_file(path)
    record = header.tensors["output.weight"]
    assert record.kind is GGMLQuantizationType[kind]
    stored = read_tensor(data, record)
    assert (stored.values.dtype, stored.shape) == (np.float32, (6, 64))
    span = np.ptp(values) if kind in ("Q4_1", "Q5_1") else np.abs(values).max()
    assert np.abs(stored.values - values).max() <= span / STEPS[kind]


@pytest.mark.parametrize(("kind", "dtype"), [("F32", torch.float32), ("F16", torch.float16), ("BF16", torch.bfloat16)])
def test_plain_types_come_back_as_they_are(kind: str, dtype: torch.dtype, tmp_path: Path) -> None:
    values = torch.randn(6, 64, generator=torch.Generator().manual_seed(1)).to(dtype)
    path = write_gguf(
        tmp_path / "a.gguf", TINY, {"output.weight": values.float().numpy()}, kind=GGMLQuantizationType[kind]
    )
    data, header = map_file(path)
    tensor = tensor_of(read_tensor(data, header.tensors["output.weight"]))
    assert tensor.dtype == dtype
    assert torch.equal(tensor, values)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "F16", "BF16", "F32"])
def test_rows_are_those_of_the_whole_matrix(kind: str, tmp_path: Path) -> None:
    values = np.random.default_rng(5).standard_normal((9, 64)).astype(np.float32)
    path = write_gguf(tmp_path / "a.gguf", TINY, {"output.weight": values}, kind=GGMLQuantizationType[kind])
    data, header = map_file(path)
    reader = MatrixReader(data, header.tensors["output.weight"])
    whole, places = reader(), np.array([7, 0, 7])
    assert reader.shape == whole.shape == (9, 64)
    for part in (places, slice(2, 4), EVERY):
        found = reader.rows(part)
        assert found.number_format == whole.number_format
        np.testing.assert_array_equal(found.values, whole.values[part])
    assert reader.rows(np.array([], dtype=np.int64)).shape == (0, 64)

"""What a trial pass finds out about a foreign model, and what it refuses."""

from __future__ import annotations

import pytest

from paradraft.core.errors import ModelError
from paradraft.models.foreign.survey import survey
from paradraft.models.kv_store import KvShape
from support.foreign_models import foreign_model


@pytest.mark.parametrize(
    ("kind", "shape", "windows"),
    [
        ("mixtral", KvShape(num_layers=3, num_heads=2, key_dim=8, value_dim=8), (None,)),
        ("gemma2", KvShape(num_layers=3, num_heads=2, key_dim=8, value_dim=8), (5, None)),
        ("deepseek_v2", KvShape(num_layers=3, num_heads=4, key_dim=12, value_dim=6), (None,)),
        ("gpt2", KvShape(num_layers=3, num_heads=4, key_dim=8, value_dim=8), (None,)),
    ],
)
def test_heads_and_windows_are_found(kind: str, shape: KvShape, windows: tuple[int | None, ...]) -> None:
    found = survey(foreign_model(kind))
    assert found.shape == shape
    assert found.windows == windows
    assert found.num_heads == 4
    assert len(found.layers) == 3


def test_a_window_is_read_from_the_mask_of_each_layer() -> None:
    found = survey(foreign_model("gemma2"))
    assert [place.window for place in sorted(found.places.values(), key=lambda place: place.layer)] == [5, None, 5]


def test_a_window_that_never_bites_within_the_context_may_be_named() -> None:
    assert survey(foreign_model("mixtral", sliding_window=9000, max_position_embeddings=10000)).windows == (9000,)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("bloom", "compute attention by code of their own"),
        ("falcon", "compute attention by code of their own"),
        ("stablelm", "do not hand on what it needs"),
        ("diffllama", "layer 0 .DiffLlamaDecoderLayer. calls attention 2 times instead of once"),
        ("bert", "layer 0 sees other keys than all earlier ones"),
    ],
)
def test_models_the_paged_cache_cannot_serve_are_refused_with_the_reason(kind: str, reason: str) -> None:
    changes: dict[str, object] = {"bloom": {"n_layer": 2}}.get(kind, {})
    with pytest.raises(ModelError, match=f"{kind}: .*{reason}"):
        survey(foreign_model(kind, **changes))

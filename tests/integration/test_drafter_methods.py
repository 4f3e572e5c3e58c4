"""Every method that a drafter folder can name starts, drafts, and leaves the answers as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from paradraft import LLM, SamplingParams
from paradraft.models.tiny import VOCAB_SIZE, write_tiny_model
from paradraft.nets.config import METHODS
from paradraft.nets.folder.saving import save_drafter_folder
from support.drafting_nets import random_net
from support.trained_pair import TARGET_LAYERS, pair_config

PROMPTS = [[5, 9, 200, 7], [40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50]]
OPTIONS = {"dtype": "fp32", "kv_tokens": 1024, "page_size": 4, "adaptive": False, "seed": 3, "gamma": 3}
GREEDY = SamplingParams(temperature=0.0, max_tokens=20, ignore_eos=True)
WARM = SamplingParams(temperature=0.8, max_tokens=20, ignore_eos=True)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("target"), "llama", 1)


@pytest.fixture(params=METHODS)
def drafter(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    own = {"eagle3": {"num_layers": 1}, "medusa": {"num_layers": 0}}.get(request.param, {})
    reduced = {"draft_vocab_size": VOCAB_SIZE - 60}
    net = random_net(pair_config(request.param, **own, **reduced), spread=0.2)
    return save_drafter_folder(tmp_path / request.param, net, None)


def test_every_method_drafts_and_changes_no_token(target: Path, drafter: Path):
    with LLM(str(target), drafter="none", **OPTIONS) as llm:
        plain = [result.choices[0].token_ids for result in llm.generate(PROMPTS, GREEDY)]
    with LLM(str(target), drafter=str(drafter), **OPTIONS) as llm:
        assert llm.engine.drafter.needs.sources == (drafter.name,)
        assert max(llm.engine.drafter.needs.hidden_layers) < TARGET_LAYERS
        assert [result.choices[0].token_ids for result in llm.generate(PROMPTS, GREEDY)] == plain
        assert not llm.engine.drafter.failures, llm.engine.drafter.last_reason
    with LLM(str(target), drafter=str(drafter), rule="rejection", **OPTIONS) as llm:
        stats = [result.choices[0].stats for result in llm.generate(PROMPTS, WARM)]
        assert not llm.engine.drafter.failures, llm.engine.drafter.last_reason
    assert all(each.drafted >= 3 for each in stats)

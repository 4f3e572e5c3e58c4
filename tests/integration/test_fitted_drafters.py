"""From captured texts over a fit to an engine: what simulation says of a drafter is what serving finds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from paradraft import LLM, SamplingParams
from paradraft.app.capture import capture_config
from paradraft.app.config import Config
from paradraft.core.arrays import ints
from paradraft.nets.folder.facts import facts_of
from paradraft.nets.folder.files import load_drafter_folder
from paradraft.nets.networks.build import restore_net
from paradraft.nets.networks.net import Net
from paradraft.train.beginning import NetPlan
from paradraft.train.evaluate import ALL, Question, compare_served, figures, measure_served
from paradraft.train.examples import Examples
from paradraft.train.fit import Rhythm
from paradraft.train.fit_plan import FitPlan
from paradraft.train.making import CardFacts, FitSources, export_fit, open_fit
from paradraft.train.manifest import Manifest
from paradraft.train.recorder import Recorder
from paradraft.train.shards import Captured, ShardWriter
from paradraft.train.target import open_target
from support.trained_pair import CALM, trained_pair

METHODS = ("dspark", "dflash", "eagle3", "peagle", "medusa")
LAYERS, BLOCK, TEXTS, PROMPT, ANSWER = (0, 1, 2), 3, 48, 6, 36
PLAN = FitPlan(steps=120, sequences=4, anchors=16, lr=6e-3, hold_out=6)


@pytest.fixture(scope="module")
def target() -> Path:
    return trained_pair("dspark", calm=CALM).folder


@pytest.fixture(scope="module")
def shards(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    recorder = Recorder(LAYERS)
    config = capture_config(Config(model=str(target), dtype="fp32"), rows=8, longest=PROMPT + ANSWER + 2)
    chance = np.random.default_rng(3)
    prompts = [chance.integers(3, 250, PROMPT).tolist() for _ in range(TEXTS)]
    params = [SamplingParams(temperature=0.0, max_tokens=ANSWER, ignore_eos=True, seed=at) for at in range(TEXTS)]
    with LLM(config=config, custom=recorder) as llm, recorder.recording():
        answers = llm.generate(prompts, params)
        texts = [[*prompt, *answer.choices[0].token_ids] for prompt, answer in zip(prompts, answers, strict=True)]
        taps = [recorder.take(at, len(ids)) for at, ids in enumerate(texts)]
        manifest = Manifest(
            target=asdict(facts_of(llm.model)),
            tap_layers=LAYERS,
            hidden_size=llm.limits.hidden_size,
            vocab_size=llm.limits.vocab_size,
            sources=("random",),
        )
    folder = tmp_path_factory.mktemp("shards")
    sequences = [
        Captured(ids=ints(ids), prompt_len=PROMPT, taps=own, source="random")
        for ids, own in zip(texts, taps, strict=True)
    ]
    ShardWriter(folder, manifest).write(0, sequences)
    return folder


def fitted(method: str, target: Path, shards: Path, folder: Path) -> Path:
    """Fit a drafter and return its folder."""
    plan = NetPlan(
        method=method,
        block_size=BLOCK,
        draft_vocab_size=259,
        markov_rank=0 if method == "eagle3" else 8,
        mask_token_id=1,
        tap_layers=(2,) if method == "medusa" else (0, 1),
    )
    fit = open_fit(
        FitSources(target=str(target), shards=shards, folder=folder / "run"), plan, PLAN, device=torch.device("cpu")
    )
    fit.run(Rhythm(report=PLAN.steps, measure=PLAN.steps, save=PLAN.steps), lambda _: None)
    return export_fit(folder / "run", folder / "drafter", target=str(target), facts=CardFacts())


def serving(target: Path, drafter: Path) -> LLM:
    options = {
        "draft_price": 0.0,
        "gamma": BLOCK,
        "adaptive": False,
        "schedule_verification": False,
        "dtype": "fp32",
        "kv_tokens": 4096,
    }
    return LLM(str(target), drafter=str(drafter), **options)


def network(drafter: Path, target: Path) -> Net:
    opened = open_target(str(target))
    loaded = load_drafter_folder(drafter).with_rows(opened.tables)
    return restore_net(loaded.config, loaded.state, opened.embedding, opened.head).eval()


@pytest.mark.parametrize("method", METHODS)
def test_simulated_acceptance_is_served_acceptance(method: str, target: Path, shards: Path, tmp_path: Path) -> None:
    drafter = fitted(method, target, shards, tmp_path)
    net = network(drafter, target)
    examples = Examples(shards, net.config.tap_layers, 2, hold_out=PLAN.hold_out)
    texts = [examples.read(at) for at in [*examples.held_out, *examples.fitted[:8]]]
    with serving(target, drafter) as llm:
        agreement = compare_served(net, texts, llm, None)
    assert agreement.num_texts >= 12
    assert agreement.offline.standing[0] > 30
    assert agreement.agrees
    assert agreement.served.rounds == pytest.approx(agreement.offline.rounds, rel=0.02)
    assert agreement.served.drafted == pytest.approx(agreement.offline.drafted, rel=0.02)
    assert agreement.served.standing == pytest.approx(agreement.offline.standing, rel=0.05, abs=2)


def test_served_rounds_are_counted_by_category_and_temperature(target: Path, shards: Path, tmp_path: Path) -> None:
    drafter = fitted("dflash", target, shards, tmp_path)
    questions = [Question(category=name, ids=(7, 8, 9 + at)) for at, name in enumerate(["a", "a", "b"])]
    with serving(target, drafter) as llm:
        measured = {heat: measure_served(llm, questions, temperature=heat, max_tokens=20) for heat in (0.0, 1.0)}
    for categories in measured.values():
        assert set(categories) == {ALL, "a", "b"}
        assert categories[ALL].rounds == categories["a"].rounds + categories["b"].rounds > 0
    said = figures(measured, "set")
    assert said["set T=1 tau"] == pytest.approx(measured[1.0][ALL].tau, abs=1e-3)
    assert len([name for name in said if name.startswith("set T=0 position")]) == BLOCK

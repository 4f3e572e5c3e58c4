"""Opens what a fit needs, and turns what it has reached into a drafter folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from paradraft.models.tables import tables_of
from paradraft.nets.folder.card import Card, TrainingSource
from paradraft.nets.folder.facts import open_target as read_target_facts
from paradraft.nets.folder.saving import save_drafter_folder
from paradraft.train.beginning import NetPlan, begin_net, unfold_scale, uses_scale
from paradraft.train.draft_task import DraftPiece, DraftTask
from paradraft.train.examples import Examples
from paradraft.train.fit import Fit
from paradraft.train.fit_plan import FitPlan
from paradraft.train.fitted import net_of, require_checkpoint
from paradraft.train.manifest import read_manifest
from paradraft.train.origin import open_origin
from paradraft.train.run_folder import ORIGIN
from paradraft.train.shards import ShardReader
from paradraft.train.target import open_target, require_target
from paradraft.train.teacher import Teacher


@dataclass(frozen=True, kw_only=True, slots=True)
class FitSources:
    """Where a fit reads and writes. begin_from: the folder of a fit or drafter it begins with."""

    target: str
    shards: Path
    folder: Path
    begin_from: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CardFacts:
    """What a card says beside the facts of fit and target. licences: of the texts, by source."""

    shards: Path | None = None  # to name the training texts and count their tokens
    licences: Mapping[str, str] = field(default_factory=dict)
    acceptance: Mapping[str, float] = field(default_factory=dict)
    licence: str = "Apache-2.0"


def open_fit(
    sources: FitSources, net_plan: NetPlan, plan: FitPlan, *, device: torch.device, may_grow: bool = False
) -> Fit[DraftPiece]:
    """Return a fit, gone on to its folder's checkpoint if there is one.

    Raises AlignmentError for shards of another target, a folder of another fit or a beginning of another shape,
    ModelError for damaged files, ConfigError for values that cannot be used.
    """
    target = open_target(sources.target)
    config = net_plan.config(target)
    last = target.config.num_layers - 1
    examples = Examples(sources.shards, config.tap_layers, last, hold_out=plan.hold_out)
    require_target(examples.target, target, sources.shards)
    net = begin_net(net_plan, target, examples.count_tokens(config.vocab_size), seed=plan.seed)
    teacher = None
    if plan.objective.needs_last_layer:
        teacher = Teacher(norm=target.final_norm.to(device), eps=target.config.norm_eps)
    scale = examples.measure_scale() if uses_scale(config) else None
    task = DraftTask(net, plan, teacher=teacher, scale=scale, device=device)
    fit = Fit(task, examples, plan, folder=sources.folder)
    if not fit.resume(may_grow=may_grow) and sources.begin_from is not None:
        origin = open_origin(sources.begin_from, target).widened(config.num_key_heads)
        if config.method == "dflash" and not config.markov_rank:
            origin = origin.without_correction()
        origin.require_same(config, sources.begin_from)
        fit.begin_with(unfold_scale(origin.state, scale), scale, origin=json.dumps(origin.record))
    return fit


def export_fit(
    folder: Path,
    out: Path,
    *,
    target: str,
    facts: CardFacts,
    layout: str = "native",
    dtype: str = "fp32",
    is_whole: bool = False,
) -> Path:
    """Write what a fit has reached as a drafter folder with its card; raise as save_drafter_folder does.

    Rows of the target's tables are left to it unless is_whole.
    """
    checkpoint = require_checkpoint(folder)
    net = net_of(checkpoint)
    opened, target_facts = read_target_facts(target)
    training = json.loads(checkpoint.facts.get("plan", "{}"))
    if ORIGIN in checkpoint.facts:
        training["begun_from"] = json.loads(checkpoint.facts[ORIGIN])
    card = Card(
        target=target_facts,
        revision=opened.source.revision,
        method=net.config.method,
        sources=() if facts.shards is None else training_sources(facts.shards, facts.licences),
        training={**{name: value for name, value in training.items() if name != "objective"}, "done": checkpoint.step},
        acceptance=dict(facts.acceptance),
        licence=facts.licence,
    )
    return save_drafter_folder(out, net, card, layout=layout, dtype=dtype, tables=tables_of(opened), is_whole=is_whole)


def training_sources(shards: Path, licences: Mapping[str, str]) -> tuple[TrainingSource, ...]:
    """Return the sources of a folder's texts and how many tokens each gave."""
    reader = ShardReader(shards)
    tokens = dict.fromkeys(read_manifest(shards).sources, 0)
    for text in reader.sequences(with_taps=False):
        tokens[text.source] += len(text.ids)
    return tuple(
        TrainingSource(name=name, licence=licences.get(name, "unknown"), num_tokens=count)
        for name, count in tokens.items()
        if count
    )

"""`paradraft train evaluate`: what a drafter reaches in the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paradraft.cli import options
from paradraft.cli.settings import build_config
from paradraft.core.errors import ConfigError

if TYPE_CHECKING:
    from paradraft.app.llm import LLM
    from paradraft.train.evaluate import Agreement
    from paradraft.train.rounds import Rounds

EXAMPLES = (
    "paradraft train evaluate ./my-drafter --prompts mt-bench --limit 20",
    "paradraft train evaluate ./my-drafter --shards ./capture --json figures.json",
)
_AGREES = {True: "agree", False: "DISAGREE: training and serving do not see the same"}


def evaluate(
    drafter: Annotated[Path, typer.Argument(help="A drafter folder.")],
    model: options.Model = None,
    prompts: Annotated[str, typer.Option(help="Prompt sets or files, separated by commas; none.")] = "mt-bench",
    limit: Annotated[int | None, typer.Option(help="Use so many prompts of each.", min=1)] = None,
    max_tokens: options.MaxTokens = 256,
    temperatures: Annotated[str, typer.Option(help="Temperatures to answer at.")] = "0,1",
    shards: Annotated[
        Path | None, typer.Option(help="Captured texts with taps: compare simulated with served acceptance on them.")
    ] = None,
    texts: Annotated[int, typer.Option(help="So many held-out texts of the shards.", min=1)] = 24,
    hold_out: Annotated[int, typer.Option(help="Every so many-th text was held out; as in `train fit`.", min=1)] = 40,
    dtype: options.Dtype = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
) -> None:
    """Answer prompts with whole drafts in every round; print tau and how often drafts stand by position and category.

    With --shards also answer the prompts of held-out texts, and compare with what simulation says of the same texts.
    """
    from paradraft.cli.opening import open_llm
    from paradraft.nets.folder.files import load_drafter_folder
    from paradraft.train.evaluate import figures

    block = load_drafter_folder(drafter).config.block_size
    base = build_config(config, settings, model=model, dtype=dtype, drafter=str(drafter))
    chosen = replace(base, gamma=block, adaptive=False, schedule_verification=False, draft_price=0.0, draft_width=1)
    said: dict[str, float] = {}
    with open_llm(chosen) as llm:
        for name in _names(prompts):
            measured = {heat: _measure(llm, name, limit, heat, max_tokens) for heat in _temperatures(temperatures)}
            _print_rounds(name, measured)
            said |= figures(measured, name)
        if shards is not None:
            agreement = _compare(llm, drafter, shards, texts=texts, hold_out=hold_out)
            _print_agreement(agreement)
            said["simulated tau"], said["served tau"] = agreement.offline.tau, agreement.served.tau
    if json_file is not None:
        json_file.write_text(json.dumps({"figures": said}, indent=2) + "\n", encoding="utf-8")
        print(json_file)


def _measure(llm: LLM, name: str, limit: int | None, temperature: float, max_tokens: int) -> Mapping[str, Rounds]:
    from paradraft.cli.opening import read_tasks
    from paradraft.lab.prompts import build_prompts
    from paradraft.train.evaluate import Question, measure_served

    prompts = build_prompts(name, read_tasks(name), llm.tokenizer, limit=limit).prompts
    questions = [Question(category=prompt.category, ids=prompt.token_ids) for prompt in prompts]
    return measure_served(llm, questions, temperature=temperature, max_tokens=max_tokens)


def _compare(llm: LLM, drafter: Path, shards: Path, *, texts: int, hold_out: int) -> Agreement:
    from paradraft.models.stored import EVERY
    from paradraft.models.tables import read_final_norm, read_tables
    from paradraft.models.tensors import tensor_of
    from paradraft.nets.folder.files import load_drafter_folder
    from paradraft.nets.networks.build import restore_net
    from paradraft.nets.networks.medusa import MedusaNet
    from paradraft.train.evaluate import compare_served
    from paradraft.train.examples import Examples

    tables = read_tables(llm.model.identity)
    loaded = load_drafter_folder(drafter, num_target_layers=llm.limits.num_layers).with_rows(tables)
    embedding, head = (tensor_of(table.rows(EVERY)).float() for table in (tables.embedding, tables.head))
    net = restore_net(loaded.config, loaded.state, embedding, head).float().eval()
    if isinstance(net, MedusaNet) and "norm.weight" not in loaded.stored:
        net.use_final_norm(tensor_of(read_final_norm(llm.model.identity)).float())
    examples = Examples(shards, loaded.config.tap_layers, llm.limits.num_layers - 1, hold_out=hold_out)
    chosen = [examples.read(at) for at in examples.held_out[:texts].tolist()]
    return compare_served(net, chosen, llm, None)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip() and name.strip() != "none"]


def _temperatures(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--temperatures {text!r} is not a list of numbers.", remedy="Write it like 0,1.") from error


def _print_rounds(name: str, measured: Mapping[float, Mapping[str, Rounds]]) -> None:
    for temperature, categories in measured.items():
        for category, rounds in categories.items():
            shares = " ".join(f"{share:.3f}" for share in rounds.by_position())
            print(f"{name:<12} T={temperature:<4g} {category:<14} tau {rounds.tau:.3f}  stand {shares}")


def _print_agreement(agreement: Agreement) -> None:
    for label, rounds in (("simulated", agreement.offline), ("served", agreement.served)):
        shares = " ".join(f"{share:.3f}" for share in rounds.by_position())
        print(f"{label:<12} {agreement.num_texts} texts  tau {rounds.tau:.3f}  stand {shares}")
    print(f"{agreement.num_other} texts were answered otherwise than captured and are left out.")
    print(f"Simulation and service {_AGREES[agreement.agrees]}.")

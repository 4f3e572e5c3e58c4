"""`paradraft generate`: one prompt, its answer as it comes."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from paradraft.cli import options
from paradraft.cli.constraints import read_grammar
from paradraft.cli.settings import build_config, build_sampling, without_sampling
from paradraft.core.errors import ConfigError
from paradraft.core.sampling import SamplingParams

if TYPE_CHECKING:
    from paradraft.app.llm import LLM

EXAMPLES = (
    'paradraft generate "Name three rivers in France."',
    'paradraft generate "Write a haiku." --temperature 0.8 --seed 7 --set top_p=0.9',
    'echo "Fix the spelling: teh cat" | paradraft generate --colour',
    'paradraft generate "Once upon a time" --raw --drafter none --json',
    'paradraft generate "When was the moon landing?" --regex "\\d{4}-\\d{2}-\\d{2}"',
    'paradraft generate "Invent a person." --json-schema person.json --temperature 0.7',
    'paradraft generate "Write a sum." --grammar sum.lark',
)


def generate(
    prompt: Annotated[str | None, typer.Argument(help="What to ask; read from standard input if left out.")] = None,
    model: options.Model = None,
    drafter: options.Drafter = None,
    rule: options.Rule = None,
    gamma: options.Gamma = None,
    dtype: options.Dtype = None,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = None,
    max_tokens: options.MaxTokens = 256,
    json_schema: options.JsonSchema = None,
    regex: options.Regex = None,
    grammar: options.GrammarFile = None,
    system: Annotated[str | None, typer.Option(help="System message of the conversation.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Take the prompt as it stands, without chat template.")] = False,
    colour: Annotated[bool, typer.Option("--colour", "--color", help="Colour tokens by where they came from.")] = False,
    as_json: options.AsJson = False,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
) -> None:
    """Answer a prompt, streaming the text; a line of figures goes to standard error.

    --set takes options (see `docs/usage.md`) and sampling parameters such as top_p, top_k, min_p and stop.
    """
    from paradraft.cli.opening import open_llm

    chosen = build_config(
        config, without_sampling(settings), model=model, drafter=drafter, rule=rule, gamma=gamma, dtype=dtype
    )
    shape = read_grammar(json_schema, regex, grammar)
    params = build_sampling(settings, temperature=temperature, seed=seed, max_tokens=max_tokens, grammar=shape)
    text = _read_prompt(prompt)
    with open_llm(chosen) as llm:
        ids = llm.tokenizer.encode(text) if raw else llm.encode_chat(_messages(system, text))
        if as_json:
            has_failed = _print_json(llm, ids, params)
        elif params.n > 1:
            has_failed = _print_choices(llm, ids, params, is_coloured=colour)
        else:
            has_failed = _stream(llm, ids, params, is_coloured=colour)
    if has_failed:
        raise typer.Exit(1)


def _read_prompt(prompt: str | None) -> str:
    if prompt is None and sys.stdin.isatty():
        raise ConfigError("There is no prompt.", remedy="Give it as an argument or on standard input.")
    text = sys.stdin.read().rstrip("\n") if prompt is None else prompt
    if not text:
        raise ConfigError("The prompt is empty.", remedy="Give it as an argument or on standard input.")
    return text


def _messages(system: str | None, text: str) -> list[dict[str, str]]:
    messages = [{"role": "user", "content": text}]
    return messages if system is None else [{"role": "system", "content": system}, *messages]


def _stream(llm: LLM, ids: list[int], params: SamplingParams, *, is_coloured: bool) -> bool:
    """Print the answer as it comes; return whether it failed."""
    from paradraft.cli.colours import legend, paint
    from paradraft.cli.console import err, out

    console, notes = out(), err()
    notes.print(llm.summary(), style="dim")
    count, error = 0, None
    start = perf_counter()
    for event in llm.stream(ids, params):
        count += len(event.token_ids)
        text = paint(event.pieces, event.origins) if is_coloured else event.text
        console.print(text, end="", markup=False, soft_wrap=True)
        console.file.flush()
        if event.stats is not None:
            seconds, error = perf_counter() - start, event.error
            console.print()
            if is_coloured:
                notes.print(legend())
            if error is not None:
                notes.print(f"error: {error}", style="red", markup=False)
            notes.print(
                f"{count} tokens in {seconds:.2f} s ({count / seconds:.1f} tokens/s), tau {event.stats.tau:.2f}, "
                f"acceptance {event.stats.acceptance_rate:.0%}, ended by {event.finish_reason}",
                style="dim",
            )
    return error is not None


def _print_choices(llm: LLM, ids: list[int], params: SamplingParams, *, is_coloured: bool) -> bool:
    """Print several answers one after the other, since together their texts would mix; return whether one failed."""
    from paradraft.cli.colours import legend, paint
    from paradraft.cli.console import err, out

    console, notes = out(), err()
    notes.print(llm.summary(), style="dim")
    [result] = llm.generate([ids], [params])
    for choice in result.choices:
        notes.print(f"choice {choice.index + 1} of {params.n}, ended by {choice.finish_reason}:", style="dim")
        console.print(paint(choice.pieces, choice.origins) if is_coloured else choice.text, markup=False)
        if choice.error is not None:
            notes.print(f"error: {choice.error}", style="red", markup=False)
    if is_coloured:
        notes.print(legend())
    return any(choice.error is not None for choice in result.choices)


def _print_json(llm: LLM, ids: list[int], params: SamplingParams) -> bool:
    """Print one object; return whether a choice failed."""
    start = perf_counter()
    [result] = llm.generate([ids], [params])
    seconds = perf_counter() - start
    choices = [
        {
            "text": choice.text,
            "token_ids": choice.token_ids,
            "origins": [origin.name.lower() for origin in choice.origins],
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
            "error": choice.error,
            "seed": choice.seed,
            "tau": choice.stats.tau,
            "acceptance_rate": choice.stats.acceptance_rate,
            "stats": asdict(choice.stats),
        }
        for choice in result.choices
    ]
    answer = {"summary": llm.summary(), "prompt_tokens": len(ids), "seconds": seconds, "choices": choices}
    print(json.dumps(answer, ensure_ascii=False))
    return any(choice.error is not None for choice in result.choices)

"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="Built-in name, model folder, GGUF file, or hub id (owner/name@revision)."),
]
Drafter = Annotated[
    str | None,
    typer.Option(
        "--drafter",
        "-d",
        help="auto, none, ngram, suffix, recent, table, merged, ladder, early-exit, a drafter folder or a draft model.",
    ),
]
Rule = Annotated[
    str | None,
    typer.Option(help="coupled, greedy, rejection, block, recursive; lossy: ratio, typical."),
]
Gamma = Annotated[int | None, typer.Option(help="Most draft tokens per step on one path; 0 decodes plainly.")]
Dtype = Annotated[str | None, typer.Option(help="auto, fp32, bf16 or fp16.")]
Temperature = Annotated[float, typer.Option(help="0 takes the most probable token.")]
Seed = Annotated[int | None, typer.Option(help="The same seed gives the same text, with any drafter and gamma.")]
MaxTokens = Annotated[int, typer.Option("--max-tokens", "-n", help="Longest answer.")]
JsonSchema = Annotated[
    Path | None, typer.Option("--json-schema", metavar="FILE", help="The answer is JSON that fits this schema.")
]
Regex = Annotated[str | None, typer.Option("--regex", help="The whole answer matches this regular expression.")]
GrammarFile = Annotated[
    Path | None, typer.Option("--grammar", metavar="FILE", help="The answer follows this grammar, in Lark or GBNF.")
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="TOML file of options; what is given on the command line wins.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any option by its name; may be repeated.")
]
Whole = Annotated[
    bool, typer.Option("--whole", help="Store rows of the target's tables too, so that the folder needs no target.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

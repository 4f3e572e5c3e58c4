"""Bad input as a user gives it, to the library and to the command: one clear message, and nothing is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from paradraft import LLM, SamplingParams
from paradraft.cli.main import app
from paradraft.core.errors import ParadraftError, RequestRefused
from paradraft.core.records import FinishReason
from paradraft.models.tiny import write_tiny_model

GREEDY = SamplingParams(temperature=0.0, max_tokens=6)
WEIGHT = "model.layers.0.self_attn.q_proj.weight"
Damage = Callable[[Path], None]


def remove(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def cut(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])


def rewrite(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    def damage(folder: Path) -> None:
        tensors = {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return damage


def configure(**values: object) -> Damage:
    def damage(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | values))

    return damage


DAMAGES: Mapping[str, tuple[Damage, str]] = MappingProxyType(
    {
        "no weights": (remove("model.safetensors"), "has no weights"),
        "no configuration": (remove("config.json"), r"config\.json is missing"),
        "no tokenizer": (remove("tokenizer.json"), r"no tokenizer\.json"),
        "weights cut short": (cut, "not a whole safetensors file"),
        "a foreign tensor": (rewrite(lambda all_: all_.update({"encoder.x": torch.ones(2)})), r"encoder\.x"),
        "a tensor too few": (rewrite(lambda all_: all_.pop(WEIGHT)), f"lack {WEIGHT}"),
        "NaN": (rewrite(lambda all_: all_[WEIGHT].fill_(torch.nan)), f"{WEIGHT} holds nan"),
        "a type nobody reads": (
            rewrite(lambda all_: all_.update({WEIGHT: all_[WEIGHT].to(torch.float8_e4m3fn)})),
            "F8_E4M3",
        ),
        "an unknown architecture": (configure(model_type="nosuch"), "nosuch"),
        "a state that cannot be rewound": (configure(model_type="mamba"), "cannot be rewound"),
    }
)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("good"), "llama", 1)


@pytest.fixture(scope="module")
def llm(good: Path) -> Iterator[LLM]:
    with LLM(str(good), dtype="fp32", kv_tokens=64, page_size=4, max_rows=4) as engine:
        yield engine


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["generate", "hi", "--raw", "--max-tokens", "2", *arguments])
    return result.exit_code, result.stderr


@pytest.mark.parametrize("role", ["model", "drafter"])
@pytest.mark.parametrize(("damage", "words"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_model_is_named_with_reason_and_remedy(
    damage: Damage, words: str, role: str, good: Path, tmp_path: Path
) -> None:
    bad = Path(shutil.copytree(good, tmp_path / "bad"))
    damage(bad)
    options = {"model": str(good), role: str(bad)}
    with pytest.raises(ParadraftError, match=words) as caught:
        LLM(dtype="fp32", kv_tokens=64, **options)
    assert len(caught.value.remedy) > 10
    if role == "model":
        code, message = run("--model", str(bad), "--dtype", "fp32")
        assert (code, message.count("\n")) == (2, 1)
        assert message == f"paradraft: {caught.value}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "rul=greedy"], "Did you mean rule"),
        (["--set", "adaptive=maybe"], "true or false"),
        (["--set", "stop=5"], "stop=5"),
        (["--rule", "magic"], "coupled, greedy"),
        (["--gamma", "65"], "from 0 to 64"),
        (["--set", "top_p=2"], "top_p=2"),
        (["--set", "logit_bias={999 = 1}"], "999"),
        (["--set", "stop_token_ids=[999]"], "0 to 258"),
        (["--regex", "("], "unclosed group"),
        (["--set", "grammar=json"], "Set grammar to None or a Grammar"),
        (["--set", "kv_tokens=2"], "Shorten the prompt, or raise"),
        (["--set", "max_model_len=100000"], "context of 512"),
        (["--set", "max_model_len=400", "--set", "kv_tokens=300"], "Set kv_tokens to at least 400"),
        (["--config", "absent.toml"], r"absent\.toml"),
    ],
)
def test_a_bad_option_is_one_line_and_exit_status_two(arguments: list[str], words: str, good: Path) -> None:
    code, message = run("--model", str(good), *arguments)
    lines = [line for line in message.splitlines() if line.startswith("paradraft: ")]
    assert code == 2
    assert len(lines) == 1
    assert words.replace("\\", "") in lines[0]
    assert "Traceback" not in message


def test_a_prompt_longer_than_the_context_names_the_context_and_the_others_are_served(good: Path) -> None:
    with LLM(str(good), dtype="fp32", kv_tokens=1024) as roomy:
        with pytest.raises(RequestRefused, match=r"600 tokens, and a row holds 512 .* the whole context"):
            roomy.generate(["fine", [5] * 600], GREEDY)
        assert roomy.generate("fine", GREEDY)[0].choices[0].token_ids


def test_a_cache_too_small_for_all_preempts_and_for_one_refuses(llm: LLM) -> None:
    params = SamplingParams(temperature=0.0, max_tokens=40, ignore_eos=True)
    prompts = [[at, 5, 6] for at in range(4)]
    together = llm.generate(prompts, params)
    assert sum(result.choices[0].stats.preemptions for result in together) > 0
    for prompt, result in zip(prompts, together, strict=True):
        assert result.choices[0].finish_reason is FinishReason.LENGTH
        assert result.choices[0].token_ids == llm.generate([prompt], params)[0].choices[0].token_ids
    with pytest.raises(RequestRefused, match="kv_tokens"):
        llm.generate([[1] * 64], params)
    assert llm.engine.pages.counts().held == 0

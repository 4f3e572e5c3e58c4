"""Lets lm-evaluation-harness ask `paradraft serve` GSM8K twice, with drafts and without, and compares every answer.

    python benchmarks/lm_eval_served.py gsm8k.jsonl --lm-eval path/to/lm_eval

Installs nothing and fetches nothing: `lm_eval` (`pip install "lm-eval[api]"`, best in an environment of its own) is
named or found in PATH, and the problems are a file with a JSON object of `question` and `answer` on each line. Both
ways go to the same server; the task without drafts says so in its requests. Exits with 1 if an answer differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

WAYS = {"speculative": {"enabled": True}, "plain": {"enabled": False}}
NUMBER = r"(-?[0-9][0-9,]*\.?[0-9]*)"  # the last one is taken for the answer


def task_of(way: str, problems: Path, max_tokens: int) -> dict[str, object]:
    """Return a task of the harness; JSON is YAML as well."""
    asking = {"until": ["Question:"], "do_sample": False, "temperature": 0.0, "max_gen_toks": max_tokens}
    return {
        "task": f"served_{way}",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(problems.resolve())}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "Question: {{question}}\nAnswer:",
        "doc_to_target": "{{answer.split('####')[-1].strip()}}",
        "num_fewshot": 0,
        "generation_kwargs": {**asking, "speculative": WAYS[way]},
        "filter_list": [
            {
                "name": "last-number",
                "filter": [
                    {"function": "regex", "regex_pattern": NUMBER, "group_select": -1},
                    {"function": "take_first"},
                ],
            }
        ],
        "metric_list": [
            {
                "metric": "exact_match",
                "aggregation": "mean",
                "higher_is_better": True,
                "regexes_to_ignore": [",", r"\.$"],
            }
        ],
    }


@contextmanager
def serving(model: str | None, options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Serve a model and yield the server's address and the model's name."""
    start = [sys.executable, "-c", "from paradraft.cli.main import main; main()", "serve", "--port", "0"]
    process = subprocess.Popen([*start, *([model] if model else []), *options], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "Serving on http://" in line:
                break
        else:
            raise SystemExit("The server did not start:\n" + "".join(lines))
        print("".join(lines), end="")
        yield line.partition("Serving on ")[2].split()[0], next(name for name in lines if " on " in name).split()[0]
    finally:
        process.terminate()
        process.wait(60)


def evaluate(harness: str, address: str, model: str, folder: Path, given: argparse.Namespace) -> None:
    """Run the harness over both tasks; it writes its samples below the folder."""
    for way in WAYS:
        task = task_of(way, given.problems, given.max_tokens)
        (folder / f"{way}.yaml").write_text(json.dumps(task), encoding="utf-8")
    where = f"model={model},base_url={address}/v1/completions,num_concurrent={given.concurrent},max_retries=1"
    command = [harness, "--model", "local-completions"]
    command += ["--model_args", f"{where},tokenizer_backend=none,tokenized_requests=False"]
    command += ["--include_path", str(folder), "--tasks", ",".join(f"served_{way}" for way in WAYS)]
    command += ["--limit", str(given.limit), "--output_path", str(folder / "out"), "--log_samples"]
    quiet = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_DATASETS_CACHE": str(folder / "cache")}
    subprocess.run(command, check=True, env={**os.environ, **quiet})


def answers_in(folder: Path, way: str) -> dict[int, str]:
    """Return the answers of one way by the number of the problem."""
    [file] = (folder / "out").rglob(f"samples_served_{way}_*.jsonl")
    samples = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {sample["doc_id"]: sample["resps"][0][0] for sample in samples}


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare served answers with and without drafts by lm-eval.")
    parser.add_argument("problems", type=Path, help="JSON lines with question and answer")
    parser.add_argument("--model", help="what is served; the built-in model if left out")
    parser.add_argument("--lm-eval", default="lm_eval", help="the harness's command")
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--concurrent", type=int, default=1, help="requests at a time")
    parser.add_argument("--serve", action="append", default=[], help="further option of paradraft serve")
    given = parser.parse_args()
    harness = shutil.which(given.lm_eval)
    if harness is None:
        raise SystemExit(f'{given.lm_eval} is not there. Install it (pip install "lm-eval[api]") or name it.')
    with TemporaryDirectory() as folder, serving(given.model, given.serve) as (address, model):
        evaluate(harness, address, model, Path(folder), given)
        found = {way: answers_in(Path(folder), way) for way in WAYS}
    different = [number for number, text in found["plain"].items() if found["speculative"][number] != text]
    print(
        f"{len(found['plain'])} answers, {len(different)} different with drafts{f': {different}' if different else ''}"
    )
    raise SystemExit(1 if different or not found["plain"] else 0)


if __name__ == "__main__":
    main()

"""Whether vLLM and `speculators` read what we write, and whether a drafter is accepted there as it is here.

    sh benchmarks/peers_read/install.sh /tmp/peers                                the environments, about 4 GB
    python benchmarks/peers_read/compare.py /tmp/peers --random                   small random networks of every method
    python benchmarks/peers_read/compare.py /tmp/peers --drafter ./drafter --prompts mt-bench --limit 8

Each drafter is exported, loaded by vLLM's CPU build with the same prompts, greedily, and by `speculators`, which
compares tensor by tensor. A position's acceptance is the share of drafts in which that token stood; both always draft
to the full length. vLLM refuses DSpark on processors, so `speculators` and the way back, bit by bit, stand for it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from random_pair import METHODS, write_drafter, write_target

from paradraft import LLM, SamplingParams
from paradraft.cli.opening import export_folder
from paradraft.hub.prompts import read_prompts
from paradraft.models.tables import tables_of
from paradraft.models.tokenizer import load_tokenizer
from paradraft.nets.folder.facts import open_target
from paradraft.nets.folder.files import load_drafter_folder
from paradraft.nets.folder.saving import save_drafter_folder

HERE = Path(__file__).parent
LAYOUTS = {"eagle3": "eagle", "peagle": "eagle", "dflash": "zlab", "medusa": "medusa"}
VLLM_METHODS = {"eagle3": "eagle3", "peagle": "eagle3", "dflash": "dflash", "medusa": "medusa"}
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
MOST_APART = 0.05


def run_peer(python: Path, script: str, *arguments: Path) -> dict[str, object]:
    """Run a script in its own environment and return its result, the last argument's content, or what went wrong."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), str(HERE / script), *map(str, arguments)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "Error" in line]
        return {"error": (errors or done.stderr.splitlines() or ["no word"])[-1]}
    return json.loads(arguments[-1].read_text())


def theirs(options: argparse.Namespace, drafter: Path, method: str, job: dict[str, object], work: Path) -> object:
    """Return the acceptance by position in vLLM, or the error."""
    content = {**job, "drafter": str(drafter), "method": VLLM_METHODS[method], "parallel": method == "peagle"}
    (work / "job.json").write_text(json.dumps(content))
    result = run_peer(options.peers / "vllm/bin/python", "vllm_acceptance.py", work / "job.json", work / "result.json")
    if "error" in result:
        return result["error"]
    counts = result["counts"]
    return [count / counts["num_drafts"] for count in counts["num_accepted_tokens_per_pos"]]


def ours(options: argparse.Namespace, target: Path, drafter: Path, job: dict[str, object]) -> list[float]:
    """Return the acceptance by position in this product, without length control: every draft is whole, as there."""
    rounds, accepted = 0, [0] * job["num_tokens"]
    with LLM(
        model=str(target), drafter=str(drafter), dtype=options.dtype, gamma=job["num_tokens"], max_rows=1,
        adaptive=False, draft_price=0.0, prefix_caching=False, threads=options.threads,
    ) as llm:  # fmt: skip
        params = SamplingParams(temperature=0.0, max_tokens=job["max_tokens"], ignore_eos=True)
        for answer in llm.generate(job["prompts"], params):
            stats = answer.choices[0].stats
            rounds += sum(stats.drafted_by_depth[:1])
            for depth, count in enumerate(stats.accepted_by_depth[: len(accepted)]):
                accepted[depth] += count
    return [count / max(rounds, 1) for count in accepted]


def comes_back(folder: Path, native: Path, work: Path) -> bool:
    """Whether the way to another layout and back leaves the weights bit by bit as they were."""
    back = save_drafter_folder(work / "back", load_drafter_folder(folder), None)
    return (back / "model.safetensors").read_bytes() == (native / "model.safetensors").read_bytes()


def compare(options: argparse.Namespace, target: Path, native: Path, prompts: list[list[int]]) -> dict[str, object]:
    """Return what came out for one drafter."""
    loaded = load_drafter_folder(native)
    method, count = loaded.config.method, loaded.config.block_size
    tables = tables_of(open_target(str(target))[0])
    loaded = loaded.with_rows(tables)
    job = {
        "target": str(target), "dtype": DTYPES[options.dtype], "num_tokens": count, "prompts": prompts,
        "max_tokens": options.max_tokens, "max_model_len": max(map(len, prompts)) + options.max_tokens + 2 * count,
    }  # fmt: skip
    found: dict[str, object] = {"drafter": native.name, "method": method}
    with TemporaryDirectory(prefix="peers-") as folder:
        work = Path(folder)
        if method != "medusa":
            out = save_drafter_folder(
                work / "speculators", loaded, loaded.card, layout="speculators", tables=tables, verifier=str(target)
            )
            python = options.peers / "speculators/bin/python"
            found["speculators"] = run_peer(python, "read_speculators.py", out, work / "read.json")
            whole = save_drafter_folder(work / "whole", loaded, loaded.card)  # a folder may leave rows to the target
            found["comes_back"] = comes_back(out, whole, work)
        if method in LAYOUTS:
            out = save_drafter_folder(
                work / f"{method}-drafter", loaded, loaded.card, layout=LAYOUTS[method], tables=tables
            )
            found["theirs"] = theirs(options, out, method, job, work)
            found["ours"] = ours(options, target, native, job)
    return found


def shown(found: dict[str, object]) -> str:
    """Return a line for a person."""
    parts = [f"{found['drafter']:<18}"]
    if "theirs" in found and isinstance(found["theirs"], str):
        parts.append(f"vLLM: {found['theirs']}")
    elif "theirs" in found:
        pairs = zip(found["ours"], found["theirs"], strict=True)
        parts += [f"{here:6.1%}/{there:6.1%}" for here, there in pairs]
    if "speculators" in found:
        read = found["speculators"]
        parts.append(
            str(read.get("error") or f"speculators: {read['same']} tensors the same, {len(read['other'])} not")
        )
        parts.append("comes back" if found["comes_back"] else "DOES NOT COME BACK")
    return "  ".join(parts)


def is_good(found: dict[str, object]) -> bool:
    """Whether the drafter was read everywhere and accepted alike."""
    read = found.get("speculators", {})
    is_read = "error" not in read and not read.get("other") and not read.get("not_finite")
    if "theirs" not in found:
        return is_read and bool(found["comes_back"])
    if isinstance(found["theirs"], str):
        return False
    apart = max(abs(here - there) for here, there in zip(found["ours"], found["theirs"], strict=True))
    return is_read and apart <= MOST_APART


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", type=Path, help="the folder that install.sh filled")
    parser.add_argument("--random", action="store_true", help="random networks of every method on a small target")
    parser.add_argument("--methods", default=",".join(METHODS), help="of the random networks")
    parser.add_argument("--target", default="smollm2-135m")
    parser.add_argument("--drafter", type=Path, action="append", default=[])
    parser.add_argument("--prompts", default="mt-bench")
    parser.add_argument("--limit", type=int, default=6)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--dtype", default="fp32", choices=DTYPES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    print("acceptance at each position, ours/theirs")
    with TemporaryDirectory(prefix="peers-") as folder:
        work = Path(folder)
        target = write_target(work / "target") if options.random else _exported(options, work)
        drafters = list(options.drafter)
        if options.random:
            drafters = [write_drafter(work / name, target, name) for name in options.methods.split(",")]
        for native in drafters:
            results.append(compare(options, target, native, _prompts(options, target)))
            print(shown(results[-1]), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(not all(map(is_good, results)))


def _exported(options: argparse.Namespace, work: Path) -> Path:
    """Return the target as a folder that vLLM reads."""
    path = Path(options.target).expanduser()
    return path if path.is_dir() else export_folder(options.target, work / "target", dtype=options.dtype)


def _prompts(options: argparse.Namespace, target: Path) -> list[list[int]]:
    tokenizer = load_tokenizer(target)
    texts = [f"Question {number}: what is {number} + {number * 7}?" for number in range(options.limit)]
    if not options.random:
        texts = [prompt.text for prompt in read_prompts(options.prompts)[: options.limit]]
    chats = [tokenizer.render_chat([{"role": "user", "content": text}]) for text in texts]
    return [tokenizer.encode(chat, add_special=False) for chat in chats]


if __name__ == "__main__":
    main()

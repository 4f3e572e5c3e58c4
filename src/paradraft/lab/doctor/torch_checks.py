"""Checks on torch: does it work, on which device, in which dtype, and is a pass flat."""

from __future__ import annotations

from collections.abc import Iterator

from paradraft.lab.doctor.facts import Facts
from paradraft.lab.doctor.findings import Finding, fail, ok, warn

_FLAT_PASS = 2.0  # 8 rows for at most this many times the cost of 1
_FIRST_DRIVER = {11: 450, 12: 525, 13: 580}  # oldest NVIDIA driver branch of each CUDA major version
_ARM = ("aarch64", "arm64")
_BF16 = {"avx512_bf16": "AVX512-BF16", "amx_bf16": "AMX-BF16"}


def check_arm(facts: Facts) -> Iterator[Finding]:
    """On ARM, whether torch finishes its trial passes at all."""
    if facts.machine.architecture not in _ARM:
        return
    if facts.torch.failure is None:
        yield ok("arm", "torch finished its trial passes here, so drafting is on like elsewhere")
    else:
        yield fail(
            "arm",
            f"torch did not finish its trial passes on this ARM processor ({facts.torch.failure})",
            "Decode plainly on one thread: `--drafter none --dtype fp32 --set threads=1`; update torch.",
        )


def check_dtype(facts: Facts) -> Iterator[Finding]:
    """Which dtype is right here and why."""
    times = facts.torch.pass_milliseconds
    flags = sorted(facts.machine.cpu_flags & _BF16.keys())
    if facts.torch.cuda_devices:
        yield ok("dtype", "bf16 on the GPU; `--dtype fp32` where every bit must agree")
    elif flags:
        speed = f", {times['bf16'][0]:.0f} ms a trial pass" if "bf16" in times else ""
        yield ok("dtype", f"bf16: {', '.join(_BF16[flag] for flag in flags)} computes it{speed}")
    else:
        yield ok("dtype", "fp32: AVX512-BF16 and AMX are absent, so bf16 would save memory but hardly any time")


def check_torch(facts: Facts) -> Iterator[Finding]:
    """Whether torch works."""
    if facts.torch.failure is not None:
        yield fail(
            "torch",
            f"it cannot be used here: {facts.torch.failure}",
            "Reinstall it (`make setup` in a clone, else `pip install --force-reinstall torch`) and look at `arm`.",
        )
    else:
        yield ok("torch", f"{facts.torch.version}, built for {_build(facts)}")


def check_device(facts: Facts) -> Iterator[Finding]:
    """Whether passes run silently on a slower device than the machine has."""
    driver, torch = facts.machine.nvidia_driver, facts.torch
    if torch.failure is not None:
        return
    if torch.cuda_devices:
        yield ok("device", f"GPU: {', '.join(torch.cuda_devices)} (driver {driver})")
    elif driver is None:
        yield ok("device", "CPU: no NVIDIA driver is loaded")
    elif torch.cuda_build is None:
        yield warn(
            "device",
            f"CPU, although NVIDIA driver {driver} is loaded: this torch was built without CUDA",
            "Install a torch wheel built for CUDA; until then every pass silently runs on the slower device.",
        )
    else:
        yield warn(
            "device",
            f"CPU, despite NVIDIA driver {driver} and torch for CUDA {torch.cuda_build}: {_why_no_cuda(facts)}",
            "Update the driver or install a torch wheel for its CUDA version; check CUDA_VISIBLE_DEVICES.",
        )


def _why_no_cuda(facts: Facts) -> str:
    major = (facts.torch.cuda_build or "").partition(".")[0]
    branch = (facts.machine.nvidia_driver or "").partition(".")[0]
    first = _FIRST_DRIVER.get(int(major)) if major.isdigit() else None
    if first is not None and branch.isdigit() and int(branch) < first:
        return f"CUDA {major} needs driver {first} or later"
    return "no device answers"


def _build(facts: Facts) -> str:
    return f"CUDA {facts.torch.cuda_build}" if facts.torch.cuda_build else "the CPU"


def check_pass(facts: Facts) -> Iterator[Finding]:
    """Whether a pass over several rows costs about what one over a single row costs."""
    for dtype, (one, eight) in facts.torch.pass_milliseconds.items():
        detail = f"{dtype}: a trial pass over 8 rows costs {eight / one:.2f} times one over 1 row"
        if eight > _FLAT_PASS * one:
            yield warn(
                "pass",
                f"{detail}, so drafts are not nearly free",
                "Keep gamma small, or leave `adaptive` on to choose.",
            )
        else:
            yield ok("pass", f"{detail}, so accepted drafts are nearly free")

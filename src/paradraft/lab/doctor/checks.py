"""The troubleshooting table: each check reads facts and answers ok, warn or fail with a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from paradraft.lab.doctor.facts import Facts
from paradraft.lab.doctor.findings import Finding
from paradraft.lab.doctor.machine_checks import (
    check_bandwidth,
    check_cache,
    check_cores,
    check_cpu,
    check_memory,
    check_model,
    check_report,
)
from paradraft.lab.doctor.native_checks import check_native
from paradraft.lab.doctor.torch_checks import check_arm, check_device, check_dtype, check_pass, check_torch

CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    check_cpu,
    check_arm,
    check_dtype,
    check_cores,
    check_memory,
    check_bandwidth,
    check_native,
    check_torch,
    check_device,
    check_pass,
    check_cache,
    check_model,
    check_report,
)


def examine(facts: Facts) -> list[Finding]:
    """Return the findings of all checks, in the order of the table."""
    return [finding for check in CHECKS for finding in check(facts)]

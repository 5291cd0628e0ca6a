"""What this machine offers: cores and memory, as limited by the container if there is one."""

import os
from collections.abc import Sequence
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def cores(cgroup: Path = CGROUP) -> int:
    """How many cores this process may keep busy, at least one."""
    available = _schedulable_cores()
    quota = _cpu_quota(cgroup)
    return max(1, available if quota is None else min(available, int(quota)))


def memory_bytes(cgroup: Path = CGROUP) -> int:
    """How much memory this process may use."""
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = _words(cgroup / "memory.max") or _words(cgroup / "memory" / "memory.limit_in_bytes")
    # Version 1 says "no limit" with a number larger than any machine, version 2 with the word max.
    return min(installed, int(limit[0])) if limit and limit[0].isdigit() else installed


def _schedulable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_quota(cgroup: Path) -> float | None:
    words = _words(cgroup / "cpu.max") or [
        *_words(cgroup / "cpu" / "cpu.cfs_quota_us"),
        *_words(cgroup / "cpu" / "cpu.cfs_period_us"),
    ]
    match words:
        case [quota, period] if quota.isdigit() and period.isdigit():
            return int(quota) / int(period)
        case _:
            return None


def _words(path: Path) -> Sequence[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []

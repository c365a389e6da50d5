"""What the benchmarks share: seconds of a call, the machine in a line, and tables in a page of the docs."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable

AS_INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
BLOCK = re.compile(r"^```text\n.*?^```$", re.MULTILINE | re.DOTALL)


def seconds_of(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds that a call takes; `time.process_time` counts those of the processor alone."""
    begin = clock()
    action()
    return clock() - begin


def least_seconds(action: Callable[[], object], repeats: int) -> float:
    """Return the least seconds of a few calls."""
    return min(seconds_of(action) for _ in range(repeats))


def machine() -> str:
    """Return what the figures were measured on."""
    return f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def with_block(page: str, text: str) -> str:
    """Return a page with a text in its only block of text."""
    return BLOCK.sub(lambda _: f"```text\n{text}\n```", page)

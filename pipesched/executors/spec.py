"""The texts that name an executor: "local", "local:4", "dask://HOST:PORT"."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from typing import NamedTuple

from pipesched.checks import MOST_WORKERS, shown
from pipesched.errors import ConfigError

PORT, MOST_PORT = 8786, 65_535  # where a Dask scheduler listens, by default
ALLOWED = "local, local:N or dask://HOST:PORT"


class Spec(NamedTuple):
    """What a text asks for: `workers` processes of this machine, or where `address` is given its Dask cluster."""

    workers: int
    address: str = ""

    @property
    def is_local(self) -> bool:
        """Whether processes of this machine are asked for."""
        return not self.address


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_spec(text: object) -> Spec:
    """Return what a text asks for. Raises ConfigError, with the nearest valid text where there is one."""
    if not isinstance(text, str):
        raise ConfigError(f"must be {ALLOWED}, not {shown(text)}", "executor")
    text = text.strip()
    kind, colon, rest = text.partition(":")
    if kind == "local" and (not colon or _number(rest, MOST_WORKERS)):
        return Spec(int(rest) if colon else cores())
    if re.fullmatch(r"dask://[^\s/:]+:\d+|dask://\[[0-9a-fA-F:]+\]:\d+", text) and _number(text.rpartition(":")[2]):
        return Spec(1, text)
    near = _nearest(text)
    hint = f"did you mean {near}? " if near else ""
    raise ConfigError(f"unknown executor {shown(text)}; {hint}allowed are {ALLOWED}", "executor")


def spec_of_jobs(jobs: int, executor: str | None) -> str:
    """Return the executor for `jobs` processes (0: one a core) and one that is named, where they do not contradict.

    Raises ConfigError.
    """
    if executor is None:
        return f"local:{jobs}" if jobs else "local"
    spec = read_spec(executor)
    if not jobs:
        return executor
    if not spec.is_local:
        raise ConfigError(f"is the number of processes of this machine, and `executor` is {executor}", "jobs")
    if ":" in executor and spec.workers != jobs:
        raise ConfigError(f"is {jobs}, and `executor` is {executor}; give one of them", "jobs")
    return f"local:{jobs}"


def _number(text: str, most: int = MOST_PORT) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= most


def _nearest(text: str) -> str:
    """Return the valid text that is most like one that is not; "" where none is."""
    lowered = text.lower()
    if near := get_close_matches(lowered.partition(":")[0], ["local"], n=1):
        lowered = near[0] + "".join(lowered.partition(":")[1:])
    if _number(text, MOST_WORKERS):
        return f"local:{text}"
    if match := re.fullmatch(r"local\W*(\d{1,5})?", lowered):
        return f"local:{min(max(int(match[1]), 1), MOST_WORKERS)}" if match[1] else "local"
    if match := re.fullmatch(r"(?:(?:dask|tcp|tls|http|https)(?::/*|$))?([\w.-]+)?(?::(\d{1,5}))?/*", lowered):
        is_named = lowered.startswith(("dask", "tcp", "tls", "http")) or match[2]
        port = match[2] if match[2] and _number(match[2]) else PORT
        return f"dask://{match[1] or 'HOST'}:{port}" if is_named else ""
    return ""

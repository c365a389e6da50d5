"""Which form of the kernels runs: compiled, or `core/kernels.py` and `core/list_kernels.py` as they stand."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType
from zlib import crc32

HOW_TO = "install a C compiler, and pipesched again"
SLOW = 5.0  # seconds of a command, after which a note says how to get compiled kernels


@cache
def _found() -> tuple[ModuleType | None, ModuleType | None, str]:
    """Return the compiled kernels and those of lists, if they are there and of today's sources, and a word on them."""
    try:
        from pipesched.core import _kernels, _list_kernels  # type: ignore[attr-defined]
    except ImportError:
        return None, None, "plain Python"
    for compiled in (_kernels, _list_kernels):  # an edited source: the compiled file would win over it
        source = Path(__file__).with_name(f"{compiled.__name__.rpartition('._')[2]}.py").read_bytes()
        if crc32(source) != compiled.SOURCE:
            return None, None, "plain Python, because the compiled ones are stale"
    return _kernels, _list_kernels, "compiled"


def compiled_kernels() -> ModuleType | None:
    """Return the compiled kernels; None where plain Python runs."""
    return _found()[0]


def compiled_lists() -> ModuleType | None:
    """Return the compiled kernels of list scheduling; None where plain Python runs."""
    return _found()[1]


def form_of_kernels() -> str:
    """Return which form runs, for people: `compiled`, or `plain Python` and why."""
    return _found()[2]

"""Which form of the kernels runs: compiled, or `core/kernels.py` as it stands."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType

HOW_TO = "install a C compiler, and pipesched again"
SLOW = 5.0  # seconds of a command, after which a note says how to get compiled kernels


@cache
def _found() -> tuple[ModuleType | None, str]:
    """Return the compiled kernels, if they are there and of today's source, and a word on them."""
    try:
        from pipesched.core import _kernels  # type: ignore[attr-defined]
    except ImportError:
        return None, "plain Python"
    source = Path(__file__).with_name("kernels.py").read_bytes()
    if sha256(source).hexdigest() != _kernels.SOURCE:  # an edited source: the compiled file would win over it
        return None, "plain Python, because the compiled ones are stale"
    return _kernels, "compiled"


def compiled_kernels() -> ModuleType | None:
    """Return the compiled kernels; None where plain Python runs."""
    return _found()[0]


def form_of_kernels() -> str:
    """Return which form runs, for people: `compiled`, or `plain Python` and why."""
    return _found()[1]

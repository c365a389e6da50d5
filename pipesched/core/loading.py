"""OR-Tools, loaded when it is first needed: it takes up to most of a second."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(module: str) -> Any:
    """A module of OR-Tools. Ctrl-C while it loads is still Ctrl-C: its binary parts make an ImportError of it."""
    try:
        return import_module(f"ortools.{module}")
    except ImportError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise

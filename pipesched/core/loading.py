"""Loading of OR-Tools when it is first needed, because that takes most of a second."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(module: str) -> Any:
    """Return a module of OR-Tools.

    Raises KeyboardInterrupt for Ctrl-C while it loads, of which its binary parts make an ImportError.
    """
    try:
        return import_module(f"ortools.{module}")
    except ImportError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise

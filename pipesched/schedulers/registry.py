"""Every algorithm by name. Families load when they are asked for, so that one costs nothing to the others."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from pipesched.lookup import find
from pipesched.schedulers.family import Family

FAMILIES = {  # name -> module of this package, in the order in which they are listed
    "sequential": "sequential",
    "naive": "naive",
    "1f1b": "one_f_one_b",
    "eager-1f1b": "eager",
    "interleaved": "interleaved",
    "looped-bfs": "looped_bfs",
    "list": "list_scheduler",
}

ALIASES = {
    "gpipe": "naive",
    "afab": "naive",
    "fill-drain": "naive",
    "breadth-first": "looped-bfs",
}


def family(name: str) -> Family:
    """The family of that name or alias. Raises ConfigError with the nearest names."""
    modules = FAMILIES | {alias: FAMILIES[target] for alias, target in ALIASES.items()}
    module = find(modules, name.lower(), "algorithm")
    found: Family = import_module(f"pipesched.schedulers.{module}").FAMILY
    return found


def all_families() -> Iterator[Family]:
    """Every family, in the order of the list."""
    return map(family, FAMILIES)


def aliases(name: str) -> list[str]:
    """The other names of a family."""
    return [alias for alias, target in ALIASES.items() if target == name]

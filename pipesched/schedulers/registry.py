"""Every algorithm by name (`family`). The module of a family is imported when it is asked for, and no other.

The table says where a family stands as an entry point does, in the order of the list: a start reads no other module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from pipesched.checks import joined, require_name, require_type
from pipesched.display import Displayable
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.family import Family

FAMILIES = {  # name -> module of this package and the Family in it, in the order in which they are listed
    "sequential": "naive.SEQUENTIAL",
    "naive": "naive.FAMILY",
    "1f1b": "one_f_one_b.FAMILY",
    "seq-1f1b": "one_f_one_b.SLICED",
    "eager-1f1b": "one_f_one_b.EAGER",
    "1f1b-overlap": "one_f_one_b.PAIRED",
    "interleaved": "one_f_one_b.LOOPED",
    "interleaved-overlap": "one_f_one_b.OVERLAPPED",
    "looped-bfs": "naive.LOOPED",
    "grouped-interleaved": "one_f_one_b.GROUPED",
    "gis-h": "one_f_one_b.HALF",
    "zb-h1": "zero_bubble.H1",
    "zb-h2": "zero_bubble.H2",
    "zb-auto": "zero_bubble.AUTO",
    "interleaved-zb": "one_f_one_b.SPLIT",
    "1f1b-v": "zero_bubble.WHOLE",
    "zb-v": "zero_bubble.ZERO_BUBBLE",
    "v-half": "zero_bubble.HALF",
    "v-min": "zero_bubble.LEAST",
    "dualpipe": "bidirectional.DUALPIPE",
    "dualpipe-v": "bidirectional.HALVED",
    "dualpipe-v-whole": "bidirectional.WHOLE",
    "chimera": "bidirectional.CHIMERA",
    "bitpipe": "bidirectional.BITPIPE",
    "hanayo": "list_scheduler.HANAYO",
    "list": "list_scheduler.FAMILY",
    "block": "custom_block.FAMILY",
}

ALIASES = {
    "gpipe": "naive",
    "afab": "naive",
    "fill-drain": "naive",
    "breadth-first": "looped-bfs",
    "gis": "grouped-interleaved",
    "zb-1p": "zb-h1",
}
KNOWN = {name: name for name in FAMILIES} | ALIASES


class Catalogue(tuple[Family, ...], Displayable):
    """Families of schedules, shown as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Catalogue({joined([algorithm.name for algorithm in self])})"


OWN: dict[str, Family] = {}  # those of users, by name, in the order in which they were registered
REST = "`algorithms()` has them all"


def _own() -> Any:
    """Return the module that reads families of users, which no start needs."""
    return import_module("pipesched.schedulers.own")


def family(one: str | Callable[..., Any], *, loads: bool = True) -> Family:
    """Return the family of that name or alias, or of a function.

    Where it `loads`, `module:function` and what installed packages declare are names too: not so of a name in data.
    Raises ConfigError with the nearest names for an unknown one.
    """
    if not isinstance(one, str) and callable(one):
        return _own().family_of(one)  # type: ignore[no-any-return]
    name = require_type(one, str, "the name of an algorithm, or a function", "algorithm")
    if hasattr(name, "family"):
        return name.family  # type: ignore[no-any-return]
    if loads and ":" in name:
        return _own().family_at(name)  # type: ignore[no-any-return]
    lower = name.lower()
    if lower not in KNOWN and is_known(lower, loads=loads):
        return OWN[lower]
    if lower not in KNOWN:
        others = _own().declared() if loads else ()
        require_name((*KNOWN, *OWN, *others), lower, "algorithm", "algorithm", REST)
    module, _, attribute = FAMILIES[KNOWN[lower]].partition(".")
    loaded: Family = getattr(import_module(f"pipesched.schedulers.{module}"), attribute)
    return loaded


def is_known(name: object, *, loads: bool = False) -> bool:
    """Return whether something is a name of a family, or where it `loads` a function, or the text of its place."""
    if not isinstance(name, str):
        return loads and callable(name)
    lower, (where, _, function) = name.lower(), name.rpartition(":")
    if lower in KNOWN or lower in OWN or hasattr(name, "family") or (loads and where and function.isidentifier()):
        return True
    if lower.replace("-", "").replace("_", "").isalnum():
        _own().look_for(lower, packages=loads)
    return lower in OWN


def runs_of(names: Sequence[str], executor: Any) -> Any:
    """Return the executor for calls with these names of families; None, said once, where one cannot be sent to it."""
    own = [name for name in names if hasattr(name, "family")]
    return executor if executor is None or not own else _own().executor_of(own, executor)


def algorithms() -> Catalogue:
    """Return every family of schedules, with what each needs, what it holds, and its source; registered ones last."""
    return Catalogue((*map(family, FAMILIES), *OWN.values()))


def compared(problem: Problem) -> Catalogue:
    """Return our families but those whose plans of this problem are another's: without slices, those made for them."""
    sliced = problem.slices.are_several
    return Catalogue(one for one in map(family, FAMILIES) if sliced or not one.same_without_slices)


def own_name(name: str) -> str:
    """Return the name of the family that goes by `name`, in any case of letters; any other text as it is."""
    return KNOWN.get(name.lower(), name)


def called(name: str) -> str:
    """Return what people call an algorithm in pictures and tables: its name, unless a family of a user has a title."""
    return (OWN[name].title if name in OWN else "") or name


def aliases(name: str) -> list[str]:
    """Return the other names of a family."""
    return [alias for alias, target in ALIASES.items() if target == name]

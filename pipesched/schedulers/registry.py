"""Every algorithm by name. The module of a family is imported when it is asked for, and no other."""

from __future__ import annotations

from importlib import import_module

from pipesched.checks import joined, look_up, require_type
from pipesched.display import Displayable
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family

FAMILIES = {  # name -> module of this package and the Family in it, in the order in which they are listed
    "sequential": "naive.SEQUENTIAL",
    "naive": "naive.FAMILY",
    "1f1b": "one_f_one_b.FAMILY",
    "seq-1f1b": "one_f_one_b.SLICED",
    "eager-1f1b": "one_f_one_b.EAGER",
    "1f1b-overlap": "one_f_one_b.OVERLAPPED",
    "interleaved": "interleaved.FAMILY",
    "interleaved-overlap": "interleaved.OVERLAPPED",
    "looped-bfs": "naive.LOOPED",
    "grouped-interleaved": "interleaved.GROUPED",
    "gis-h": "interleaved.HALF",
    "zb-h1": "zero_bubble.H1",
    "zb-h2": "zero_bubble.H2",
    "zb-auto": "zb_auto.FAMILY",
    "interleaved-zb": "interleaved.SPLIT",
    "1f1b-v": "v_schedules.WHOLE",
    "zb-v": "v_schedules.ZERO_BUBBLE",
    "v-half": "v_schedules.HALF",
    "v-min": "v_schedules.LEAST",
    "dualpipe": "dualpipe.FAMILY",
    "dualpipe-v": "dualpipe.HALVED",
    "chimera": "chimera.FAMILY",
    "hanayo": "hanayo.FAMILY",
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


REST = "`algorithms()` has them all"


def family(name: str) -> Family:
    """Return the family of that name or alias. Raises ConfigError with the nearest names for an unknown one."""
    lower = require_type(name, str, "the name of an algorithm", "algorithm").lower()
    module, _, attribute = FAMILIES[look_up(KNOWN, lower, "algorithm", "algorithm", REST)].partition(".")
    loaded: Family = getattr(import_module(f"pipesched.schedulers.{module}"), attribute)
    return loaded


def algorithms() -> Catalogue:
    """Return every family of schedules, with what each needs, what it holds, and its source."""
    return Catalogue(map(family, FAMILIES))


def compared(problem: Problem) -> Catalogue:
    """Return every family but those whose plans of this problem are another's: without slices, those made for them."""
    sliced = problem.slices.are_several
    return Catalogue(one for one in algorithms() if sliced or not one.same_without_slices)


def own_name(name: str) -> str:
    """Return the name of the family that goes by `name`, in any case of letters; any other text as it is."""
    return KNOWN.get(name.lower(), name)


def aliases(name: str) -> list[str]:
    """Return the other names of a family."""
    return [alias for alias, target in ALIASES.items() if target == name]

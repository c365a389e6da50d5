"""Every algorithm by name. Families load when they are asked for, so that one costs nothing to the others."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from pipesched.lookup import find
from pipesched.schedulers.family import Family

FAMILIES = {  # name -> module of this package and the Family in it, in the order in which they are listed
    "sequential": "sequential.FAMILY",
    "naive": "naive.FAMILY",
    "1f1b": "one_f_one_b.FAMILY",
    "eager-1f1b": "eager.FAMILY",
    "1f1b-overlap": "overlap.FAMILY",
    "interleaved": "interleaved.FAMILY",
    "interleaved-overlap": "interleaved_overlap.FAMILY",
    "looped-bfs": "looped_bfs.FAMILY",
    "grouped-interleaved": "grouped_interleaved.FAMILY",
    "gis-h": "grouped_interleaved.HALF",
    "zb-h1": "zero_bubble.H1",
    "zb-h2": "zero_bubble.H2",
    "zb-auto": "zb_auto.FAMILY",
    "interleaved-zb": "interleaved_zb.FAMILY",
    "1f1b-v": "one_f_one_b_v.FAMILY",
    "zb-v": "zb_v.FAMILY",
    "v-half": "v_half.FAMILY",
    "v-min": "v_min.FAMILY",
    "dualpipe": "dualpipe.FAMILY",
    "dualpipe-v": "dualpipe_v.FAMILY",
    "chimera": "chimera.FAMILY",
    "hanayo": "hanayo.FAMILY",
    "list": "list_scheduler.FAMILY",
}

ALIASES = {
    "gpipe": "naive",
    "afab": "naive",
    "fill-drain": "naive",
    "breadth-first": "looped-bfs",
    "gis": "grouped-interleaved",
    "zb-1p": "zb-h1",
}


def family(name: str) -> Family:
    """The family of that name or alias. Raises ConfigError with the nearest names."""
    modules = FAMILIES | {alias: FAMILIES[target] for alias, target in ALIASES.items()}
    module, _, attribute = find(modules, name.lower(), "algorithm").partition(".")
    found: Family = getattr(import_module(f"pipesched.schedulers.{module}"), attribute)
    return found


def all_families() -> Iterator[Family]:
    """Every family, in the order of the list."""
    return map(family, FAMILIES)


def aliases(name: str) -> list[str]:
    """The other names of a family."""
    return [alias for alias, target in ALIASES.items() if target == name]

"""The JSON document of a packing (version 1), and the config of one of its ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipesched.documents.json_text import picked
from pipesched.documents.problem import cut_document, problem_document
from pipesched.results.packing import Packing
from pipesched.text.writer import ConfigText, dump


def packing_document(packing: Packing) -> dict[str, Any]:
    """Return format "pipesched.packing": the documents of each microbatch by their index, and what that takes."""
    return {
        "format": "pipesched.packing",
        "version": 1,
        "documents": len(packing.lengths) if packing.pieces is None else packing.pieces[-1][0] + 1,
        "tokens": sum(packing.tokens),
        **picked(packing, "ranks", "cap", "microbatches", "algorithm", "makespan", "bound", "gap", "covers"),
        **picked(packing, "exact", "fits"),
        **cut_document(packing.cut),
        "makespans": [*packing.makespans],
        **picked(packing, "assignment", "work"),
        "baselines": [picked(one, "rule", "fits", "makespan", "most_tokens") for one in packing.baselines],
        **({"tried": [*map(list, packing.tried)]} if packing.tried else {}),
        **({} if packing.more is None else {"more": [*packing.more]}),
        **({"dropped": packing.dropped} if packing.dropped else {}),
        **({} if packing.pieces is None else {"pieces": [*map(list, packing.pieces)]}),
    }


def rank_config(packing: Packing, rank: int | None = None) -> ConfigText:
    """Return the config of a rank, by default the slowest: its microbatches are fed in their order.

    `run` of it takes what the rank takes. Raises ConfigError for a rank that there is not.
    """
    rank = packing.slowest if rank is None else rank
    problem = replace(packing.problem(rank), layers=None)
    content = {key: value for key, value in problem_document(problem).items() if value not in (None, "")}
    for section in ("costs", "memory"):
        content[section] = {key: value for key, value in content[section].items() if value is not None}
    what = f"rank {rank} of {packing.ranks}, {packing.tokens[rank]} tokens in {packing.microbatches} microbatches"
    return dump({**content, "algorithm": packing.algorithm}, f"{what}: makespan {packing.makespans[rank]}")

"""Published attention of ranks that share a sequence beside ours: what a step of a ring takes beside its attention.

The records are tests/data/measured_context.json. One GPU that computes as many scores as a rank of the ring is what a
step is compared with; the rest, over the steps that merge, is what the ring costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipesched.estimation.communication import FORWARD
from pipesched.estimation.setup import Setup
from pipesched.estimation.setup_reader import setup_of
from pipesched.estimation.terms import Term, total
from pipesched.estimation.times import INPUT, context_terms, core_terms
from published_runs import records_of
from published_times import Compared

RING, GATHER = "zigzag ring", "all-gather of keys and values (Llama 3)"
WAYS = {RING: "ring", GATHER: "gather"}
GPUS = {"H800": "h800", "A100": "a100-80gb-sxm"}
NEAR = 2.5  # the goal, of a ring: no step differs by more than this factor


def steps() -> list[Compared]:
    """Return the milliseconds of each published step of a ring beside its attention, and ours; gathers as well."""
    return [
        Compared(record["id"], record["variant"], record["measured"]["extra_ms_per_step"], step_of(record))
        for record in records_of("measured_context.json")
        if record.get("variant") in WAYS
    ]


def step_of(record: Mapping[str, Any]) -> float:
    """Return ours: attention and exchange of all steps less what one GPU takes for as many scores, a merging step."""
    ranks, words = record["gpus"], record["tokens_per_rank"]
    both = (FORWARD, INPUT) if "backward" in record["what"] else (FORWARD,)
    ring, alone = _setup(record, ranks, words * ranks), _setup(record, 1, words)
    took: float = sum(_sum((*core_terms(ring, one), *context_terms(ring, one))) for one in both)
    work: float = sum(_sum(core_terms(alone, one)) for one in both)
    return float((took - ranks * work) / (ranks - 1))


def _setup(record: Mapping[str, Any], ranks: int, words: int) -> Setup:
    """Return a model of one layer with the widths of a record, on that many ranks."""
    heads, keys = (record[key] // record["head_dim"] for key in ("query_width", "key_width"))
    model = {
        "num_hidden_layers": 1,
        "hidden_size": record["query_width"],
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "intermediate_size": record["query_width"],
        "vocab_size": 1024,
    }
    return setup_of(
        model=model,
        hardware=GPUS[record["gpu"]],
        parallel={"gpus": ranks, "context": ranks},
        batch={"sequence": words, "global": 1},
        training={"context": WAYS[record["variant"]]},
    ).setup


def _sum(terms: Iterable[Term]) -> float:
    return float(total(terms))


def context_table() -> bool:
    """Print the table; return whether a step of a ring differs by more than the goal allows."""
    rows = steps()
    print("\nContext parallelism: a step beside its attention, 8 GPUs of a node, 8,192 tokens a rank")
    print(_head())
    for line in _lines(rows):
        print(line)
    worst = max(_factor(row) for row in rows if row.family == RING)
    print(f"  steps of rings within a factor of {worst:.2f}")
    return worst > NEAR


def _head() -> str:
    return f"  {'run':<75} {'published':>10} {'ours':>10} {'factor':>7}"


def _lines(rows: Iterable[Compared]) -> Iterator[str]:
    for row in rows:
        yield f"  {row.name:<75} {row.published:>10.3f} {row.ours:>10.3f} {row.ours / row.published:>7.2f}"


def _factor(row: Compared) -> float:
    return max(row.ours / row.published, row.published / row.ours)

"""OpenTelemetry spans as OTLP JSON (`resourceSpans`), read as ranges: Megatron's, or others by their names.

A resource is a rank: its `dl.rank`, or the number behind the rank of `service.instance.id`; else each is another one.
(opentelemetry.io/docs/specs/otlp, JSON encoding; NVIDIA/Megatron-LM of August 2026, its observability guide.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from pipesched.analysis.measured.ranges import TraceSource

SOURCE = TraceSource("OpenTelemetry", "us")
MEGATRON = {"megatron.microbatch.forward": "F", "megatron.microbatch.backward": "B"}
RANKS = ("dl.pipeline_parallel.rank", "dl.rank", "service.instance.id")
MICROBATCHES = ("megatron.microbatch_id", "dl.microbatch_id")
NUMBER = re.compile(r"(?:.*rank)?(\d{1,9})", re.DOTALL)


def rank_of(resource: Any, others: int) -> int:
    """Return the rank of a resource; where it says none, that behind so many others."""
    said = _number(resource.get("resource") if isinstance(resource, dict) else None, *RANKS)
    return others if said is None else said


def events_of(resource: Any) -> Iterator[dict[str, Any]]:
    """Yield the spans of a resource as ranges of torch.profiler; times that are none stay so."""
    for span in _inside(resource, "scopeSpans", "spans"):
        ends = [str(span.get(f"{key}TimeUnixNano")) for key in ("start", "end")]
        is_time = all(re.fullmatch(r"\d{1,20}", end) for end in ends)
        first, last = (Decimal(end).scaleb(-3) if is_time else Decimal("nan") for end in ends)
        yield {
            "ph": "X", "cat": "user_annotation", "name": span.get("name"), "ts": first, "dur": last - first,
            "args": {"microbatch": _number(span, *MICROBATCHES)},
        }  # fmt: skip


def _inside(part: Any, key: str, *keys: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a list of this key, or in lists of the keys behind it in these."""
    given = part.get(key) if isinstance(part, dict) else None
    for one in given if isinstance(given, list) else ():
        if keys:
            yield from _inside(one, *keys)
        elif isinstance(one, dict):
            yield one


def _number(part: Any, *names: str) -> int | None:
    """Return the number in the first of these attributes that has one."""
    values = {one.get("key"): one.get("value") for one in _inside(part, "attributes")}
    for value in map(values.get, names):
        match = NUMBER.fullmatch(str(next(iter(value.values()), ""))) if isinstance(value, dict) else None
        if match:
            return int(match[1])
    return None

"""OpenTelemetry spans as OTLP JSON (`resourceSpans`): Megatron's, or others by their names; a resource is a rank.

Megatron names them `megatron.microbatch.forward`, with `megatron.microbatch_id`, and `megatron.microbatch.backward`.
Times are nanoseconds. (opentelemetry.io/docs/specs/otlp, JSON encoding; NVIDIA/Megatron-LM, the observability guide.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from pipesched.analysis.measured.counted import Counted, CountedRank, letter_of
from pipesched.analysis.measured.ranges import TraceSource, ticks_of
from pipesched.checks import shown

SOURCE = TraceSource("OpenTelemetry", "us")
MEGATRON = {"megatron.microbatch.forward": "F", "megatron.microbatch.backward": "B"}
MICROBATCHES = ("megatron.microbatch_id", "dl.microbatch_id")
RANKS = ("dl.pipeline_parallel.rank", "dl.rank")
_INSTANCE = re.compile(r".*rank(\d{1,9})")
Attributes = dict[str, Any]


class Spans:
    """The spans of a file by their ranks; a rank may have several resources, as exporters write them."""

    def __init__(self, file: str, names: Mapping[str, str]) -> None:
        self.file, self._names = file, names or MEGATRON
        self._ranks: dict[int, list[Counted]] = {}

    def see(self, resource: Any) -> None:
        """Note the spans of a resource. Raises ConfigError for times that are none."""
        found = [self._counted(span) for span in _inside(resource, "scopeSpans", "spans")]
        about = _attributes(resource.get("resource")) if isinstance(resource, dict) else {}
        said = [about[key] for key in RANKS if isinstance(about.get(key), int)]
        match = _INSTANCE.fullmatch(str(about.get("service.instance.id")))
        rank = said[0] if said else int(match[1]) if match else len(self._ranks)
        self._ranks.setdefault(rank, []).extend(one for one in found if one.letter)

    def _counted(self, span: Mapping[str, Any]) -> Counted:
        letter = letter_of(str(span.get("name")), self._names)
        if not letter:
            return Counted("", 0, 0)
        start, end = (self._time(span, f"{end}TimeUnixNano") for end in ("start", "end"))
        about = _attributes(span)
        numbers = [about[key] for key in MICROBATCHES if isinstance(about.get(key), int)]
        return Counted(letter, start, end, numbers[0] if numbers and numbers[0] >= 0 else None)

    def _time(self, span: Mapping[str, Any], key: str) -> int:
        nanoseconds = str(span.get(key))
        time = Decimal(nanoseconds).scaleb(-3) if re.fullmatch(r"\d{1,20}", nanoseconds) else None
        return ticks_of(time, f"{key} of {span.get('name')}, {shown(span.get(key))},", self.file)

    def ranks(self) -> list[CountedRank]:
        """Return what each rank recorded."""
        return [CountedRank(rank, self.file, found) for rank, found in self._ranks.items() if found]


def _inside(part: Any, *keys: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in lists of these keys, one in another."""
    if not isinstance(part, dict):
        return
    if not keys:
        yield part
    given = part.get(keys[0]) if keys else None
    for one in given if isinstance(given, list) else ():
        yield from _inside(one, *keys[1:])


def _attributes(part: Any) -> Attributes:
    """Return whole numbers and texts among the attributes of a resource or a span."""
    found: Attributes = {}
    for one in _inside(part, "attributes"):
        value = one.get("value")
        given = next(iter(value.values()), None) if isinstance(value, dict) else None
        is_whole = isinstance(value, dict) and "intValue" in value and re.fullmatch(r"\d{1,9}", str(given))
        found[str(one.get("key"))] = int(str(given)) if is_whole else given
    return found

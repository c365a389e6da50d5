"""What a config leaves to a solve: several numbers of chunks, each with the placements that suit it."""

from __future__ import annotations

from typing import Any, NamedTuple

from pipesched.config.values import Values
from pipesched.errors import ConfigError
from pipesched.pipeline.placement import PLACEMENTS
from pipesched.pipeline.units_of_measure import count_of, is_several
from pipesched.text.given import located


class Choices(NamedTuple):
    """The numbers of chunks to choose from, and the name of the placement of each, if it is given."""

    chunks: tuple[int, ...] | None = None
    placement: str | None = None


def take_choices(values: Values) -> Choices:
    """Return what is left to a solve; of values only the first number of chunks stays. Raises ConfigError."""
    given = values.get("chunks")
    listed = _of_parallel(values) if given is None else given.value
    if not is_several(listed):
        return Choices()
    try:
        counts = tuple(count_of("chunks", count) for count in listed)
        if not counts:
            raise ConfigError("must name at least one number of stages a device", "chunks")
    except ConfigError as error:
        raise located(error, values) from None
    _keep_first(values, counts[0])
    named = values.get("placement")
    if len(counts) > 1 and named is not None and isinstance(named.value, str) and named.value in PLACEMENTS:
        del values["placement"]
        return Choices(counts, named.value)
    return Choices(counts)


def _of_parallel(values: Values) -> Any:
    """Return the chunks that the section of a training run gives."""
    if "parallel" not in values:
        return None
    entries = values["parallel"].value.value.data
    return entries["chunks"].plain() if isinstance(entries, dict) and "chunks" in entries else None


def _keep_first(values: Values, count: int) -> None:
    if "chunks" in values:
        values["chunks"] = values["chunks"]._replace(value=count)
        return
    from pipesched.text.sections import merged

    below = values["parallel"]
    values["parallel"] = below._replace(value=merged(below.value, {"chunks": count}, "parallel"))

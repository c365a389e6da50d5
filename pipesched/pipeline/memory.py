"""The memory of activations and weights: in the user's unit as given, and in integer grains for all that computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import lcm
from operator import sub
from typing import Any, NamedTuple

from pipesched.checks import require_label, require_sequence, require_whole, shown
from pipesched.display import Displayable
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import BRIEF, Entry, exact_entries, exact_tuple, fields_of, one_or_all
from pipesched.pipeline.quantities import Exact, grains_per_unit, to_fraction

KEPT = ("weights", "gradients", "states")  # of a stage as a whole; the optimizer's states


class Grains(NamedTuple):
    """The memory of a problem as integers: `per_unit` grains are one of the user's memory units."""

    per_unit: int
    activation: tuple[int, ...]
    retained: tuple[int, ...]  # what the end of I leaves for W: a part of the activation, or more than all of it
    checkpointed: tuple[int, ...]  # what the end of F leaves of an activation that is recomputed
    static: tuple[int, ...]
    budget: tuple[int, ...] | None

    @property
    def released(self) -> tuple[int, ...]:
        """What the end of I frees of an activation."""
        return tuple(max(size - left, 0) for size, left in zip(self.activation, self.retained, strict=True))

    @property
    def caught(self) -> tuple[int, ...]:
        """What the start of I takes beside an activation, of which more than all is retained: gradients for W."""
        return tuple(max(left - size, 0) for size, left in zip(self.activation, self.retained, strict=True))

    @property
    def recomputed(self) -> tuple[int, ...]:
        """What the end of F frees of an activation that is recomputed, and R takes again."""
        return tuple(map(sub, self.activation, self.checkpointed))

    def of(self, column: str | None) -> tuple[int, ...]:
        """Return a column of Kind.takes or Kind.gives, stage by stage; zeros for None."""
        sizes: tuple[int, ...] = (0,) * len(self.activation) if column is None else getattr(self, column)
        return sizes


@dataclass(frozen=True)
class Memory(Displayable):
    """Memory in the user's unit, of which `unit` is the label.

    For each of the S stages: `activation` of one microbatch (or of each, where they differ), `retain` (what is held
    from the end of I to the end of W, in activations: above 1 where gradients are held beside it, from the start of I
    on), `checkpoint` (the part that a recomputed microbatch keeps), `static` (weights, gradients, optimizer). `budget`
    is the limit of each device, static memory included (None: no limit). `kv` is the part of an activation that keys
    and values are: slices of a microbatch hold their gradients, forward passes alone hold them. `weights`, `gradients`
    and `states` (of the optimizer) of each stage as a whole are part of what stays, or come and go where they are
    sharded (`()`: nothing). `resolution` divides the number of grains in a unit.

    Raises ConfigError, about the field at fault, for lists of other lengths and for entries that are no such numbers.
    """

    activation: tuple[Entry, ...]
    retain: tuple[Exact, ...]
    checkpoint: tuple[Exact, ...]
    static: tuple[Exact, ...]
    budget: tuple[Exact, ...] | None = None
    unit: str = "microbatch"
    kv: Exact = 0
    weights: tuple[Exact, ...] = ()
    gradients: tuple[Exact, ...] = ()
    states: tuple[Exact, ...] = ()
    resolution: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        stages = len(require_sequence(self.activation, "activation"))
        object.__setattr__(self, "activation", exact_entries(self.activation, "activation", stages, "one a stage"))
        for key in ("retain", "checkpoint", "static"):
            object.__setattr__(self, key, exact_tuple(getattr(self, key), key, stages, "one a stage"))
        for key in KEPT:
            sizes = getattr(self, key) or (0,) * stages
            object.__setattr__(self, key, exact_tuple(sizes, key, stages, "one a stage"))
        require_whole(self.resolution, "resolution", least=1)
        object.__setattr__(self, "kv", exact_tuple((self.kv,), "kv", 1, "")[0])
        for key, shares in (("checkpoint", self.checkpoint), ("kv", (self.kv,))):
            for entry, share in enumerate(shares):
                if share > 1:
                    at = entry if key == "checkpoint" else None
                    raise ConfigError(f"must be between 0 and 1, not {shown(share)}", key, entry=at)
        if self.budget is not None:
            devices = len(require_sequence(self.budget, "budget"))
            object.__setattr__(self, "budget", exact_tuple(self.budget, "budget", devices, "one a device"))
            for entry, limit in enumerate(self.budget):
                if not limit:
                    raise ConfigError(f"must be more than 0, not {shown(limit)}", "budget", entry=entry)
        require_label(self.unit, "unit")

    @property
    def microbatches(self) -> int | None:
        """How many microbatches the activations of a stage on which they differ are of; None where all are alike."""
        return max((len(entry) for entry in self.activation if isinstance(entry, tuple)), default=None)

    def __repr__(self) -> str:
        budget = "" if self.budget is None else f", budget={one_or_all(self.budget, BRIEF)}"
        return f"Memory(activation={one_or_all(self.activation, BRIEF)}{budget}, unit={shown(self.unit, BRIEF // 2)})"

    @cached_property
    def grains(self) -> Grains:
        """The memory as integers, scaled by the least common multiple of all denominators."""
        sizes, held, kept, static = (
            [*map(to_fraction, column)] for column in (self.activation, self.retain, self.checkpoint, self.static)
        )
        limits = None if self.budget is None else [*map(to_fraction, self.budget)]
        retained = [size * part for size, part in zip(sizes, held, strict=True)]
        checkpointed = [size * part for size, part in zip(sizes, kept, strict=True)]
        scale = lcm(grains_per_unit([*sizes, *retained, *checkpointed, *static, *(limits or ())]), self.resolution)

        def whole(column: Sequence[Fraction]) -> tuple[int, ...]:
            return tuple(int(value * scale) for value in column)

        limit = None if limits is None else whole(limits)
        return Grains(scale, whole(sizes), whole(retained), whole(checkpointed), whole(static), limit)

    def __getstate__(self) -> dict[str, Any]:
        return fields_of(self)

"""The memory of activations and weights: in the user's unit as given, and in integer grains for all that computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipesched.checks import require_label, require_sequence, require_whole, shown
from pipesched.display import Displayable
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import BRIEF, Entry, exact_entries, exact_tuple, fields_of, one_or_all
from pipesched.pipeline.quantities import Exact

KEPT = ("weights", "gradients", "states")  # of a stage as a whole; the optimizer's states


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

    def __getstate__(self) -> dict[str, Any]:
        return fields_of(self)

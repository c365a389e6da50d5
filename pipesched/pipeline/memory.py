"""The memory of activations and weights: in the user's unit as given, and in integer grains for all that computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipesched.checks import require_label, require_sequence, require_whole, shown
from pipesched.display import Displayable
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import BRIEF, COSTS, Entry, exact_entries, exact_tuple, fields_of, one_or_all
from pipesched.pipeline.quantities import Exact
from pipesched.pipeline.shapes import Each, Label, Number, declare, declared
from pipesched.pipeline.units_of_measure import MEMORY

SIZE = Each(Number(MEMORY))


@dataclass(frozen=True, kw_only=True)
class Memory(Displayable):
    """Memory in the user's unit, of which `unit` is the label.

    Lists have one for each of the S stages, `activation` also one for each microbatch where they differ, `budget` one
    for each device (None: no limit). A `retain` above 1 holds gradients beside the activation, from the start of I on.
    `weights`, `gradients` and `states` are part of what stays, or come and go where they are sharded (`()`: nothing).
    `resolution` divides the number of grains in a unit.

    Raises ConfigError, about the field at fault, for lists of other lengths and for entries that are no such numbers.
    """

    unit: str = declare(
        Label(),
        "a label for memory, for instance GB; default microbatch; values may have units of their own, 500MB",
        "microbatch",
        absent="microbatch",
        flag=None,
        live="microbatch",
    )
    activation: tuple[Entry, ...] = declare(
        Each(Number(MEMORY), rows=True),
        "of one stage and microbatch; default P/S",
        called="activation memory",
        live="0.5",
    )
    retain: tuple[Exact, ...] = declare(
        Each(Number()),
        "held from the end of I to the end of W, in activations; default 1",
        absent=1,
        called="retained part of activations",
        example="1",
    )
    checkpoint: tuple[Exact, ...] = declare(
        Each(Number(most=1)),
        "fraction that a recomputed microbatch keeps; default 0",
        absent=0,
        called="kept part of activations",
        example="0.1",
    )
    kv: Exact = declare(
        Number(most=1),
        "keys and values as a part of the activation: slices hold their gradients, forwards alone them; default 0",
        0,
        absent=0,
        called="keys and values",
        example="0.25",
    )
    receive: Exact = declare(
        Number(MEMORY),
        "buffer of a message between stages, from its RECV to the end of what needs it, where they queue; default 0",
        0,
        absent=0,
        called="receive buffer",
        example="0",
    )
    static: tuple[Exact, ...] = declare(
        SIZE,
        "weights, gradients, optimizer, per stage; default 0",
        absent=0,
        called="static memory",
        flag=None,
        example="0",
    )
    weights: tuple[Exact, ...] = declare(
        SIZE,
        "weights of a stage, whole; default 0",
        (),
        absent=0,
        once=True,
        example="2",
        remark="or these three, for each stage as a whole, which `shard` divides",
    )
    gradients: tuple[Exact, ...] = declare(
        SIZE, "gradients of a stage, whole; default 0", (), absent=0, once=True, example="4"
    )
    states: tuple[Exact, ...] = declare(
        SIZE,
        "states of the optimizer of a stage, whole; default 0",
        (),
        absent=0,
        once=True,
        called="optimizer states",
        example="12",
    )
    budget: tuple[Exact, ...] | None = declare(
        Each(Number(MEMORY, above=True), "device"),
        "limit of activations and static memory; absent: none, or with `model` what the GPU leaves",
        None,
        called="memory budget",
        flag="mem-budget",
        example="4",
    )
    resolution: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        stages = len(require_sequence(self.activation, "activation"))
        object.__setattr__(self, "activation", exact_entries(self.activation, "activation", stages, "one a stage"))
        for name in (*SHARES, *SIZES):
            if name != "activation":
                sizes = getattr(self, name) or ((0,) * stages if MEMORY_KEYS[name].once else ())
                object.__setattr__(self, name, exact_tuple(sizes, name, stages, "one a stage"))
        require_whole(self.resolution, "resolution", least=1)
        for key in ("kv", "receive"):
            object.__setattr__(self, key, exact_tuple((getattr(self, key),), key, 1, "")[0])
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


MEMORY_KEYS = declared(Memory, "memory")
KEPT = tuple(name for name, one in MEMORY_KEYS.items() if one.once)  # of a stage as a whole
_OF_STAGES = [name for name, one in MEMORY_KEYS.items() if one.of_stages and not one.once]
SHARES = tuple(name for name in _OF_STAGES if MEMORY_KEYS[name].dimension is None)  # of activations
SIZES = (*(name for name in _OF_STAGES if name not in SHARES), *KEPT)
TABLED = tuple(one.name for one in (*COSTS.values(), *MEMORY_KEYS.values()) if one.has_rows)

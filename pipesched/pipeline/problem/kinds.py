"""The kinds of operations: KINDS, the table that lowering, memory, charts, formats and the solver read.

STEP_KINDS are those of a step beside its passes, MESSAGE_KINDS the ends of messages that queue. Only `check` restates
it, because it must share nothing with the makers of what it checks. To add a kind, see CONTRIBUTING.md.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Resource(Enum):
    """What an operation occupies: its device, one of its lanes (host memory, network, messages), or none."""

    DEVICE = "device"
    D2H = "D2H"
    H2D = "H2D"
    NETWORK = "network"
    QUEUE = "queue"
    NOTHING = "nothing"


LANES = (Resource.D2H, Resource.H2D)


class Scope(Enum):
    """What the operations of a kind are numbered by."""

    UNIT = "stage and microbatch"
    TURN = "stage and turn"  # each time that the weights of the stage are whole, from UNSHARD to RESHARD
    STAGE = "stage"
    REDUCTION = "stage, and microbatch where each is reduced"
    SIDE = "side item and microbatch"
    MESSAGE = "stage, or side item, and microbatch"


class Join(Enum):
    """Over what an operation waits for all operations of a kind, where it does not wait for its counterpart alone."""

    MICROBATCHES = "all microbatches of its stage"
    ENDS = "all microbatches of the first and the last stage"
    STAGES = "all of all stages"
    SIDES = "its microbatch of all side items into its stage"


class Need(NamedTuple):
    """An operation of the same microbatch that must have ended before another starts.

    `stage` and `slice` are relative to those of the operation that waits (-1: the stage before). Between two devices
    the latency of the boundary is added. With `join` it waits for all operations of the kind over that.
    """

    letter: str
    stage: int = 0
    slice: int = 0
    join: Join | None = None


class Kind(NamedTuple):
    """One kind of operation."""

    letter: str
    name: str
    cost: str  # the name of its duration, a table of Ticks
    mark: str  # what fills its slot in a chart without colours
    needs: tuple[Need, ...]
    takes: str | None = None  # the part of an activation (a column of the model) that its start takes
    gives: str | None = None  # that its end gives back
    forward_gives: str | None = None  # that the end of the forward gives back where an operation of this kind follows
    resource: Resource = Resource.DEVICE
    in_ideal: bool = True  # whether it counts in the least work of a device: R does not
    scope: Scope = Scope.UNIT

    @property
    def is_transfer(self) -> bool:
        """Whether it runs on a lane, while its device works."""
        return self.resource is not Resource.DEVICE


_FORWARD_NEEDS = (Need("F", -1), Need("F", slice=-1), Need("E", join=Join.SIDES))
_BACKWARD_NEEDS = (
    *(Need("F"), Need("R"), Need("L"), Need("B", 1), Need("I", 1)),
    *(Need("B", slice=1), Need("I", slice=1)),  # of keys and values
)

KINDS: dict[str, Kind] = {
    kind.letter: kind
    for kind in (
        Kind("F", "forward", "forward", "-", _FORWARD_NEEDS, takes="activation"),
        Kind("B", "backward", "backward", "=", _BACKWARD_NEEDS, gives="activation"),
        Kind("I", "input gradient", "backward_input", "=", _BACKWARD_NEEDS, takes="caught", gives="released"),
        Kind("W", "weight gradient", "backward_weight", "~", (Need("I"),), gives="retained"),
        Kind("R", "recompute", "recompute", "^", (Need("F"),), takes="recomputed", forward_gives="recomputed",
             in_ideal=False),
        Kind("O", "offload", "offload", ">", (Need("F"),), gives="activation", resource=Resource.D2H),
        Kind("L", "load back", "reload", "<", (Need("O"),), takes="activation", resource=Resource.H2D),
    )
}  # fmt: skip
_ALL_BACKWARDS = (Need("B", join=Join.MICROBATCHES), Need("W", join=Join.MICROBATCHES))
_REDUCTIONS = (Need("REDUCE_GRAD", join=Join.MICROBATCHES), Need("REDUCE_TIED"))
# what an optimizer needs where gradients are clipped by their global norm
WHEN_CLIPPED = tuple(Need(kind, join=Join.STAGES) for kind in ("B", "W", "REDUCE_GRAD", "REDUCE_TIED"))

STEP_KINDS: dict[str, Kind] = {  # of the step beside its passes; PyTorch's words, where it has them
    kind.letter: kind
    for kind in (
        Kind("UNSHARD", "gather weights", "gather", "u", (), resource=Resource.NETWORK, scope=Scope.TURN),
        Kind("RESHARD", "free weights", "", "", (Need("UNSHARD"),), resource=Resource.NOTHING, scope=Scope.TURN),
        Kind("REDUCE_GRAD", "reduce gradients", "reduce", "r", _ALL_BACKWARDS, resource=Resource.NETWORK,
             scope=Scope.REDUCTION),
        Kind("REDUCE_TIED", "reduce tied gradients", "tied", "t",
             tuple(Need(kind, join=Join.ENDS) for kind in ("B", "W", "REDUCE_GRAD")), resource=Resource.NETWORK,
             scope=Scope.STAGE),
        Kind("OPTIMIZER", "optimizer", "optimizer", "o", (*_ALL_BACKWARDS, *_REDUCTIONS), scope=Scope.STAGE),
        Kind("E", "side forward", "forward", "e", (), takes="side_activation", scope=Scope.SIDE),
        Kind("G", "side backward", "backward", "g", (Need("E"), *(Need(kind, join=Join.SIDES) for kind in "BI")),
             gives="side_activation", scope=Scope.SIDE),
    )
}  # fmt: skip
STEP_SLOTS = tuple(kind.letter for kind in STEP_KINDS.values() if kind.resource is Resource.DEVICE)
NETWORK_KINDS = tuple(kind.letter for kind in STEP_KINDS.values() if kind.resource is not Resource.DEVICE)
MESSAGE_KINDS: dict[str, Kind] = {  # both ends of a message, which has the number of its SEND
    kind.letter: kind
    for what, name in (("F", "output"), ("B", "gradient"), ("E", "side output"), ("G", "side gradient"))
    for kind in (
        Kind(f"SEND_{what}", f"send {name}", "p2p", "s", (Need("I" if what == "B" else what),),
             resource=Resource.QUEUE, scope=Scope.MESSAGE),
        Kind(f"RECV_{what}", f"receive {name}", "p2p", "v", (Need(f"SEND_{what}"),),
             resource=Resource.QUEUE, scope=Scope.MESSAGE),
    )
}  # fmt: skip
ALL_KINDS = {**KINDS, **STEP_KINDS, **MESSAGE_KINDS}
LETTERS = "".join(KINDS)
SLOT_LETTERS = "".join(letter for letter, kind in KINDS.items() if not kind.is_transfer)
TRANSFER_LETTERS = "".join(letter for letter, kind in KINDS.items() if kind.is_transfer)
COMPUTATION_LETTERS = "FBIW"  # of a training step without recompute and offload
GRADIENT_LETTERS = "BI"  # their end gives the gradient of a stage's input


class MemorySavings(NamedTuple):
    """The actions that a schedule may take with an activation between forward and backward, besides keeping it."""

    offload: bool = False
    recompute: bool = False

    @property
    def letters(self) -> str:
        return "R" * self.recompute + "OL" * self.offload

    @classmethod
    def of(cls, letters: str) -> MemorySavings:
        return cls(offload="O" in letters, recompute="R" in letters)


KEEP_ONLY = MemorySavings()

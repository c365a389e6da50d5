"""The kinds of operations: the table that lowering, memory, charts, formats and the solver read.

Only `check` restates it, because it must share nothing with the makers of what it checks. To add a kind, see
CONTRIBUTING.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Resource(Enum):
    """What an operation occupies: its device, or one of that device's lanes to and from host memory."""

    DEVICE = "device"
    D2H = "D2H"
    H2D = "H2D"


LANES = (Resource.D2H, Resource.H2D)


class Need(NamedTuple):
    """An operation of the same microbatch that must have ended before another starts.

    `stage` and `slice` are relative to those of the operation that waits (-1: the stage before). Between two devices
    the latency of the boundary is added.
    """

    letter: str
    stage: int = 0
    slice: int = 0


@dataclass(frozen=True)
class Kind:
    """One kind of operation.

    `cost` names its duration (a field of Costs and Ticks), `takes` and `gives` the part of an activation (a column of
    Grains) that it takes at its start and gives back at its end. `forward_gives` is what the end of the forward gives
    back already where an operation of this kind will follow. `mark` fills its slot in a chart without colours.
    """

    letter: str
    name: str
    cost: str
    mark: str
    needs: tuple[Need, ...]
    takes: str | None = None
    gives: str | None = None
    forward_gives: str | None = None
    resource: Resource = Resource.DEVICE
    in_ideal: bool = True

    @property
    def is_transfer(self) -> bool:
        """Whether it runs on a lane, while its device works."""
        return self.resource is not Resource.DEVICE


_GRADIENTS = (Need("B", 1), Need("I", 1), Need("B", slice=1), Need("I", slice=1))  # the last two of keys and values
_BACKWARD_NEEDS = (Need("F"), Need("R"), Need("L"), *_GRADIENTS)

KINDS: dict[str, Kind] = {
    kind.letter: kind
    for kind in (
        Kind("F", "forward", "forward", "-", (Need("F", -1), Need("F", slice=-1)), takes="activation"),
        Kind("B", "backward", "backward", "=", _BACKWARD_NEEDS, gives="activation"),
        Kind("I", "input gradient", "backward_input", "=", _BACKWARD_NEEDS, takes="caught", gives="released"),
        Kind("W", "weight gradient", "backward_weight", "~", (Need("I"),), gives="retained"),
        Kind(
            "R",
            "recompute",
            "recompute",
            "^",
            (Need("F"),),
            takes="recomputed",
            forward_gives="recomputed",
            in_ideal=False,
        ),
        Kind("O", "offload", "offload", ">", (Need("F"),), gives="activation", resource=Resource.D2H),
        Kind("L", "load back", "reload", "<", (Need("O"),), takes="activation", resource=Resource.H2D),
    )
}
LETTERS = "".join(KINDS)
SLOT_LETTERS = "".join(letter for letter, kind in KINDS.items() if not kind.is_transfer)
TRANSFER_LETTERS = "".join(letter for letter, kind in KINDS.items() if kind.is_transfer)
COMPUTATION_LETTERS = "FBIW"  # of a training step without recompute and offload
GRADIENT_LETTERS = "BI"  # their end gives the gradient of a stage's input


def count_computations(split: bool, stages: int, microbatches: int) -> int:
    """Return the number of operations of a plain step, whose backward runs as I and W if `split`."""
    return len(computation_letters(split)) * stages * microbatches


def computation_letters(split: bool) -> str:
    """Return the kinds of a plain training step: F and B, or with a split backward F, I and W."""
    return "FIW" if split else "FB"


class Allowed(NamedTuple):
    """The actions that a schedule may take with an activation between forward and backward, besides keeping it."""

    offload: bool = False
    recompute: bool = False

    @property
    def letters(self) -> str:
        """The kinds of operations of these actions."""
        return "R" * self.recompute + "OL" * self.offload

    @classmethod
    def of(cls, letters: str) -> Allowed:
        """Return the actions of which the kinds are among `letters`."""
        return cls(offload="O" in letters, recompute="R" in letters)


KEEP_ONLY = Allowed()

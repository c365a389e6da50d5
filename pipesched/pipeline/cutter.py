"""What a problem was derived from, as far as problems know it: something that can cut its stages anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from pipesched.pipeline.cutting.items import CutItems
from pipesched.pipeline.placement import Placement

P = TypeVar("P")  # the type of problems, which know cutters and not the other way round


@runtime_checkable
class Cutter(Protocol[P]):
    """What a problem was derived from, where its stages can be cut anew: for another number, or another placement."""

    def cut(self, problem: P, placement: Placement, algorithm: str | None) -> P:
        """Return `problem` cut for a placement, which it then has; `algorithm` is what will schedule it, if known.

        Raises NotApplicable where there is no such cut.
        """

    @property
    def is_open(self) -> bool:
        """Whether a solve may choose where stages end."""

    @property
    def ends(self) -> tuple[int, ...]:
        """The item behind each stage."""

    @property
    def layers_of_stages(self) -> tuple[int, ...]:
        """The layers of each stage."""

    def cut_items(self, problem: P) -> CutItems:
        """Return what each item takes and holds at least, on a placement of so many stages a device."""

    def cut_at(self, problem: P, ends: Sequence[int]) -> P:
        """Return `problem`, on its placement, with stages that end before these items."""

    def require_recompute(self) -> None:
        """Raise NotApplicable where a recompute is part of the costs already, and none can be an operation."""

    def facts(self) -> Mapping[str, Any]:
        """Return what trainers have options for, by the keys of their tables; `stages` are the items of each stage."""

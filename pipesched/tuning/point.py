"""A point of a space: one value for each field that is searched, and one algorithm."""

from __future__ import annotations

from typing import Any, NamedTuple

from pipesched.estimation.setup import FULL

FIELDS = (
    "parallel.tensor",
    "parallel.pipeline",
    "parallel.chunks",
    "parallel.context",
    "parallel.expert",
    "parallel.expert_tensor",
    "batch.micro",
    "training.recompute",
)
WAYS = tuple(field.partition(".")[2] for field in FIELDS[:6])


class Layout(NamedTuple):
    """One value for each field. `recompute` is none, selective, full, or so many layers of each stage."""

    tensor: int
    pipeline: int
    chunks: int
    context: int
    expert: int
    expert_tensor: int
    micro: int
    recompute: str | int

    @property
    def parallel(self) -> dict[str, int]:
        """The ways of parallelism, by their keys."""
        return {key: getattr(self, key) for key in WAYS}

    @property
    def in_one_chunk(self) -> Layout:
        """The same with one stage a device, which has the same weights on each."""
        return self._replace(chunks=1)

    @property
    def recompute_value(self) -> Any:
        """Recompute as a config gives it."""
        return {FULL: self.recompute} if isinstance(self.recompute, int) else self.recompute

    def __str__(self) -> str:
        ways = [f"{key} {size}" for key, size in self.parallel.items() if size > 1 or key in ("tensor", "pipeline")]
        more = [f"micro {self.micro}"] if self.micro > 1 else []
        if self.recompute != "none":
            more.append(f"recompute {self.recompute}" + (" layers" if isinstance(self.recompute, int) else ""))
        return ", ".join([*ways, *more])


class SpacePoint(NamedTuple):
    """A layout and the algorithm that schedules it."""

    layout: Layout
    algorithm: str

    @property
    def key(self) -> str:
        """A text that no other point of any space has."""
        return f"{'/'.join(map(str, self.layout))}/{self.algorithm}"

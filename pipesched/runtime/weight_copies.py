"""Two copies of a stage: equal weights at the start, and the sum of what both added to the gradients after a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from pipesched.pipeline.placement import Placement
from pipesched.runtime.team import Team


class WeightCopies:
    """The stages of a rank that have a copy on another one, in ascending order."""

    def __init__(self, team: Team, placement: Placement, modules: Mapping[int, Any]) -> None:
        self._copies: list[tuple[Any, Any, bool]] = []  # module, group of both ranks, whether this one is the original
        self._before: list[dict[Any, Any]] = []
        if not placement.mirrored:
            return
        pairs = [(home, placement.last - home) for home in placement.devices]
        groups: dict[tuple[int, int], Any] = {}
        for low, high in sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}):
            if team.rank in (low, high):
                groups[low, high] = team.connect(f"copies{low}and{high}", (low, high))
        for stage, (home, other) in enumerate(pairs):
            if team.rank in (home, other) and home != other:
                self._copies.append((modules[stage], groups[min(home, other), max(home, other)], team.rank == home))
        for module, group, is_original in self._copies:
            root = group.rank() if is_original else 1 - group.rank()
            for tensor in (*module.parameters(), *module.buffers()):
                _through_host(tensor, partial(_broadcast, group, root))

    def begin_step(self) -> None:
        """Put away the gradients that were there, so that only what the step adds is summed."""
        self._before = []
        for module, _, _ in self._copies:
            weights = [weight for weight in module.parameters() if weight.requires_grad]
            self._before.append({weight: weight.grad for weight in weights})
            for weight in weights:
                weight.grad = None

    def end_step(self) -> None:
        """Sum up what both copies added."""
        for (_, group, _), before in zip(self._copies, self._before, strict=True):
            for weight, old in before.items():
                new = torch.zeros_like(weight) if weight.grad is None else weight.grad
                _through_host(new, partial(_sum, group))
                weight.grad = new if old is None else old.add_(new)
        self._before = []

    def give_up(self) -> None:
        """Restore the gradients that were there, after a failure."""
        for before in self._before:
            for weight, old in before.items():
                weight.grad = old
        self._before = []

    def close(self) -> None:
        """Let go of the connections."""
        self._copies = []


def _broadcast(group: Any, root: int, tensor: Any) -> None:
    group.broadcast(tensor, root).wait()


def _sum(group: Any, tensor: Any) -> None:
    group.allreduce([tensor]).wait()


def _through_host(tensor: Any, change: Callable[[Any], None]) -> None:
    """Let `change` work on a tensor in the memory of the host, which gloo needs."""
    with torch.no_grad():
        value = tensor.detach().cpu().contiguous()
        change(value)
        tensor.detach().copy_(value)

"""Weights that stand on several ranks: equal at the start, and the sum of what all added to the gradients after a step.

They are those of a stage with two copies, and those that stages share, an embedding with the head above all. A rank
makes `WeightCopies`; in its block `summed` a step trains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.placement import Placement
from pipesched.runtime.team import Team

Tied = Sequence[Mapping[int, str]]  # of each weight that stages share: its name in the module of each


def tied_weights(modules: Sequence[Any]) -> list[dict[int, str]]:
    """Return the weights that several of the stages share, each with its name in the module of each stage."""
    places: dict[int, dict[int, str]] = {}
    for stage, module in enumerate(modules):
        for name, weight in module.named_parameters():
            places.setdefault(id(weight), {})[stage] = name
    return [names for names in places.values() if len(names) > 1]


def weights_here(tied: Tied, modules: Mapping[int, Any]) -> list[Any]:
    """Return each tied weight where this rank has it, else None.

    Raises ConfigError for a name that a module lacks, and for stages of one rank that do not share it.
    """
    found = []
    for entry, names in enumerate(tied):
        own = [(stage, name) for stage, name in names.items() if stage in modules]
        here = [(stage, dict(modules[stage].named_parameters()).get(name)) for stage, name in own]
        for stage, weight in here:
            if weight is None:
                raise ConfigError(f"stage {stage} has no weight {shown(names[stage])}", "tied", entry=entry)
            if weight is not here[0][1]:
                what = f"stages {here[0][0]} and {stage} of one rank must share the tensor"
                raise ConfigError(what, "tied", entry=entry)
        found.append(here[0][1] if here else None)
    return found


class WeightCopies:
    """The weights of a rank that other ranks have too: in ascending order of stages with copies, then those tied."""

    def __init__(self, team: Team, placement: Placement, modules: Mapping[int, Any], tied: Tied = ()) -> None:
        self._groups: dict[Any, Any] = {}  # by the weight: the group that sums its gradient
        shared = weights_here(tied, modules)
        pairs = [(devices[0], devices[-1]) for devices in zip(*placement.ways, strict=True)]
        groups: dict[tuple[int, int], Any] = {}
        for low, high in sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}):
            if team.rank in (low, high):
                groups[low, high] = team.connect(f"copies{low}and{high}", (low, high))
        for stage, (home, other) in enumerate(pairs):
            if team.rank in (home, other) and home != other:
                tensors = [*modules[stage].parameters(), *modules[stage].buffers()]
                apart = [tensor for tensor in tensors if not any(tensor is one for one in shared)]  # these are below
                self._join(groups[min(home, other), max(home, other)], apart, int(home > other))
        for number, (names, weight) in enumerate(zip(tied, shared, strict=True)):
            ranks = sorted(set[int]().union(*(pairs[stage] for stage in names)))
            if weight is not None and len(ranks) > 1:
                self._join(team.connect(f"tied{number}", tuple(ranks)), [weight], 0)

    def _join(self, group: Any, tensors: Sequence[Any], root: int) -> None:
        """Give tensors the values of the root of a group, and note which of them have gradients to sum."""
        for tensor in tensors:
            with _on_host(tensor) as value:
                group.broadcast(value, root).wait()
            if tensor.requires_grad:
                self._groups[tensor] = group

    @contextmanager
    def summed(self) -> Iterator[None]:
        """Add to the gradients what all ranks add in the block, which begins without; after a failure restore them."""
        before = {weight: weight.grad for weight in self._groups}
        try:
            for weight in before:
                weight.grad = None
            yield
            for weight, old in before.items():
                new = torch.zeros_like(weight) if weight.grad is None else weight.grad
                with _on_host(new) as value:
                    self._groups[weight].allreduce([value]).wait()
                weight.grad = new if old is None else old.add_(new)
        except BaseException:
            for weight, old in before.items():
                weight.grad = old
            raise

    def close(self) -> None:
        self._groups = {}


@contextmanager
def _on_host(tensor: Any) -> Iterator[Any]:
    """Yield the values of a tensor in the memory of the host, which gloo needs; it gets what becomes of them."""
    with torch.no_grad():
        value = tensor.detach().cpu().contiguous()
        yield value
        tensor.detach().copy_(value)

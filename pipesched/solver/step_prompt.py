"""Starts as early as possible in the exact model: a later one may hold less, but no schedule of a plan has it.

Each operation starts at 0, or at the end of something that it may wait for: of what it needs, with the latency, or of
what shares its device or its lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipesched.solver.step_gathers import RuledGathers
from pipesched.solver.step_task_model import StepTaskModel

Gathers = Mapping[int, RuledGathers]  # by device


def start_promptly(owner: StepTaskModel, ruled: Gathers, machines: Sequence[Sequence[int]]) -> None:
    """Let each operation of a model start as early as possible; `machines` are the tasks of devices, then of lanes."""
    others = {owner.step.gathers[stage] for gathers in ruled.values() for stage in gathers.rows}
    for task, start in enumerate(owner.starts):
        if task in others:
            continue  # below, as those of passes
        causes = [
            0,
            *_ends_of_needs(owner, ruled, task),
            *_ends_on_machines(owner, ruled, task, machines),
            *_ends_of_side(owner, task),
        ]
        there = [owner.presences[task]] if task in owner.presences else []
        owner.model.add_bool_or(owner.is_one_of(start, causes)).only_enforce_if(*there)
    for device, gathers in ruled.items():
        lane = [owner.end(task) for task in machines[len(machines) // 2 + device]]
        gathers.start_promptly(lane)


def _ends_of_needs(owner: StepTaskModel, ruled: Gathers, task: int) -> Iterator[Any]:
    for before, lag in owner.rules.graph.predecessors[task]:
        yield owner.end(before) + lag // owner.quantum
    for gathers in ruled.values():
        if task in gathers.ends:
            yield gathers.ends[task]


def _ends_on_machines(
    owner: StepTaskModel, ruled: Gathers, task: int, machines: Sequence[Sequence[int]]
) -> Iterator[Any]:
    """Yield the ends of what shares a machine with a task, and for a gather of side work before all passes."""
    devices = len(machines) // 2
    for machine, tasks in enumerate(machines):
        if task not in tasks:
            continue
        yield from (owner.end(other) for other in tasks if other != task)
        if machine >= devices:
            if task in owner.step.gathers.values():
                yield from (owner.end(other) for other in owner.step.on_machine(machine - devices))
            if machine - devices in ruled:
                yield from ruled[machine - devices].ends.values()


def _ends_of_side(owner: StepTaskModel, task: int) -> Iterator[Any]:
    """Yield when side work is there for a pass, and for the backward of side work its input."""
    for side in owner.step.side:
        for device, forward in side.forwards.items():
            lag = owner.step.lag(side.item, device) // owner.quantum
            if task == owner.step.used_by(side):
                yield owner.end(forward) + lag
            if task == side.backwards.get(device):
                yield from (owner.end(one) + lag for one in owner.step.gradients_for(side))

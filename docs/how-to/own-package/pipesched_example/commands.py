"""A command: how often devices change between kinds of operations."""

from itertools import pairwise

import typer

import pipesched


def switches(name: str = typer.Argument("1f1b"), devices: int = 4, microbatches: int = 8) -> None:
    """Count how often each device changes from one kind of operation to another, under an algorithm."""
    problem = pipesched.make_problem(devices=devices, microbatches=microbatches)
    plan = pipesched.run(problem, name).schedule.plan
    for device in range(devices):
        kinds = [str(slot).strip("0123456789") for slot in plan.slots(device)]
        count = sum(kind != after for kind, after in pairwise(kinds))
        print(f"device {device}: {count} switches")

"""Plans that the runtime must run: of every family, and random ones with every kind of operation."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import pytest

import pipesched
from pipesched import NotApplicable, Outcome, Schedule
from tests.strategies import random_saving_plan, saving_plan_of

SIZES = ((4,), (3, 2), (1,), (2, 5), (9,))  # of microbatches, one after the other and round again: rows, or lengths too


def sizes_of(microbatches: int) -> list[tuple[int, ...]]:
    """The shape of each microbatch, but for the width of the model."""
    return [SIZES[microbatch % len(SIZES)] for microbatch in range(microbatches)]


def made(algorithm: str, devices: int, *, unequal: bool = False) -> Outcome:
    """A schedule of a family; M = 2P + 1 microbatches where the family takes them, else 2P."""
    stages = 2 * devices
    up = [4 * stages - 2 * stage for stage in range(stages)]
    options = {"period": 7, "forward": list(range(stages)), "backward": up} if algorithm == "block" else {}
    for microbatches in (2 * devices + 1, 2 * devices):
        rows = [prod(size) for size in sizes_of(microbatches)]
        problem = pipesched.make_problem(
            devices=devices, stages=stages, microbatches=microbatches, forward=2, backward=3, p2p=1,
            sizes={"work": rows} if unequal else None,
        )  # fmt: skip
        try:
            return pipesched.run(problem, algorithm, **options)
        except NotApplicable:
            continue
    pytest.fail(f"{algorithm} does not run on {devices} devices")


def random_schedule(seed: int) -> Schedule:
    """A random legal plan of every kind of operation; every fourth is bidirectional, of these every other a V."""
    random = Random(seed)
    devices = random.choice([1, 2, 3, 4])
    if seed % 4 == 0:
        placement: Any = "bidirectional"
        devices = max(devices, 2)
        stages = devices * (1 + seed // 4 % 2)
    else:
        placement = [*range(devices), *random.choices(range(devices), k=random.randint(0, 3))]
        random.shuffle(placement)
        stages = len(placement)
    problem = pipesched.make_problem(
        devices=devices, stages=stages, microbatches=random.randint(1, 5), placement=placement,
        offload=random.choice([0, 1, 3]), forward=random.choice([0, 2]), p2p=random.choice([0, 1]),
    )  # fmt: skip
    texts = random_saving_plan(
        problem, random, split=random.choice([0, 0.5, 1]), pair=random.choice([0, 0.5]),
        recompute=random.choice([0, 0.3]), offload=random.choice([0, 0.5, 1]), wait=random.choice([0, 0.2]),
    )  # fmt: skip
    return pipesched.schedule_plan(problem, saving_plan_of(problem, texts))

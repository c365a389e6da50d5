"""What is known of a point before it is simulated: memory that no cut can do without, and a rate that none exceeds."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from pipesched.estimation.derived import budget_of
from pipesched.estimation.items import GB, HEAD, MTP, STATES, Items
from pipesched.estimation.memory import CONTEXT, FRAGMENTATION
from pipesched.estimation.setup import Setup
from pipesched.estimation.times import OPERATIONS
from pipesched.schedulers.family import Family

PER_SECOND = 10**6  # microseconds
SPLIT_PLACEMENTS = ("bidirectional",)


class Outlook(NamedTuple):
    """Bounds of a setup: bytes of the fullest device, less what is fixed, and microseconds of the pipeline.

    `fused` is the bound on schedules that run one stage a device and whole backwards, `other` on all others.
    """

    floor: Fraction
    fused: float
    other: float


def outlook(setup: Setup) -> Outlook:
    """Return the bounds of a setup."""
    items = Items(setup)
    count, devices = len(items), setup.parallel.pipeline
    work = [sum(item.time(operation) for operation in OPERATIONS) for item in items.each]
    whole, largest = sum(work), max(work)
    pipeline = float(max(Fraction(whole, devices), largest) * setup.microbatches)
    through = float(items.sum_of("forward", 0, count) + items.sum_of("backward_input", 0, count))
    pipeline = max(pipeline, through)
    return Outlook(_floor(items, devices), max(pipeline, _with_ends(items, work, pipeline)), pipeline)


def _floor(items: Items, devices: int) -> Fraction:
    """Return what the fullest device must hold: states and one microbatch, spread as evenly as can be."""
    count = len(items)
    kept = [items.sum_of(key, 0, count) for key in (*STATES, "activation")]
    each = [item.states + item.size("activation") for item in items.each]
    ends = [one + items.logits for one, item in zip(each, items.each, strict=True) if item.kind in (MTP, HEAD)]
    if items.setup.training.full_layers is not None:  # a layer that is recomputed keeps its input only
        least = items.setup.model.layers * items.freed
        return (sum(kept, Fraction(0)) - least + items.logits) / devices
    return max((sum(kept, Fraction(0)) + items.logits) / devices, *each, *ends)


def _with_ends(items: Items, work: list[int], pipeline: float) -> float:
    """Return a bound for one stage a device and whole backwards: devices wait for their first forward, and are done
    when gradients have gone on to the first stage.

    A stage can have no more work than the time over the microbatches; the least that devices wait is where the last
    stages have that much. Time is raised until the work and the waiting of all devices fit in.
    """
    devices, microbatches = items.setup.parallel.pipeline, items.setup.microbatches
    if devices == 1:
        return pipeline
    whole = sum(work[1:])  # without the embedding, which has no input gradient
    low, high = pipeline, 4 * pipeline + whole
    for _ in range(30):
        middle = (low + high) / 2
        waits = _least_waiting(whole, devices, middle / microbatches)
        if devices * middle >= microbatches * whole + waits:
            high = middle
        else:
            low = middle
    return low


def _least_waiting(whole: float, devices: int, most: float) -> float:
    """Return the least time that devices wait in all: each for the work of all stages before it, once a step."""
    waiting, left = 0.0, whole
    for behind in range(devices):  # from the last stage on
        here = min(left, most)
        left -= here
        waiting += behind * here  # the work of a stage is waited for by all devices behind it
    return waiting


def least_time(known: Outlook, family: Family, setup: Setup) -> float:
    """Return microseconds that no schedule of a family is shorter than."""
    is_fused = family.stages == "P" and family.placement == "linear" and not _splits(family)
    return known.fused if is_fused and setup.parallel.pipeline > 1 else known.other


def _splits(family: Family) -> bool:
    return family.name.startswith("zb")


def most_tokens_a_second(setup: Setup, microseconds: float) -> float:
    """Return the tokens a second of a GPU that no point exceeds whose step takes no less than that."""
    return setup.tokens_of_step / (microseconds / PER_SECOND) / setup.parallel.gpus


def misses(setup: Setup, floor: Fraction) -> Fraction:
    """Return by how many GB the fullest device misses its memory at least; 0 or less where it may fit."""
    over = floor / GB - budget_of(setup)
    return over * (1 + FRAGMENTATION)


__all__ = ["CONTEXT", "Outlook", "least_time", "misses", "most_tokens_a_second", "outlook"]

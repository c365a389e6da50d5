"""What a step holds over time, a second time: activations, whole weights and gradients, and side work."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.replay import memory_moves
from tests.oracle.setup import ZERO
from tests.oracle.step_setup import Step, parse

CLASSES = ("activations", "weights", "gradients", "side")
Times = Mapping[str, Fraction]


class Change(NamedTuple):
    """A change of what a device holds of a class at a time."""

    device: int
    what: str
    time: Fraction
    size: Fraction


class Peaks(NamedTuple):
    """The largest sum of all, and the largest of each class, by device."""

    total: list[Fraction]
    activations: list[Fraction]
    weights: list[Fraction]
    gradients: list[Fraction]
    side: list[Fraction]


def peaks_of(step: Step, device_of: Mapping[str, int], start: Times, end: Times) -> Peaks:
    """The peaks of a replayed step; `device_of` and the times are by the texts of operations."""
    changes = [*changes_of(step, device_of, start, end)]
    devices = range(step.setup.devices)

    def peaks(classes: Collection[str]) -> list[Fraction]:
        return [
            _peak([(one.time, one.size) for one in changes if one.device == device and one.what in classes])
            for device in devices
        ]

    return Peaks(peaks(CLASSES), *(peaks([what]) for what in CLASSES))


def changes_of(step: Step, device_of: Mapping[str, int], start: Times, end: Times) -> Iterator[Change]:
    """Everything that is taken and given back."""
    passes = {parse(text).as_pass: text for text in device_of if parse(text).is_pass}
    for text in passes.values():
        for move in memory_moves(step.setup, parse(text).as_pass, passes):
            yield Change(device_of[text], "activations", (end if move.at_end else start)[text], move.change)
    for device, what, since, until, size in _stays(step, device_of, start, end):
        yield Change(device, what, since, size)
        yield Change(device, what, until, -size)


def _stays(
    step: Step, device_of: Mapping[str, int], start: Times, end: Times
) -> Iterator[tuple[int, str, Fraction, Fraction, Fraction]]:
    """What is held from one time to another: device, class, from, to, size."""
    ops = {text: parse(text) for text in device_of}
    for text, op in ops.items():
        device = device_of[text]
        if op.kind == "UNSHARD" and step.level == "weights":
            yield device, "weights", start[text], end[text.replace("UNSHARD", "RESHARD")], step.weights[op.stage]
        if op.kind == "REDUCE_GRAD" and step.from_level("gradients"):
            backwards = [
                start[one]
                for one, other in ops.items()
                if other.kind in ("B", "W") and other.stage == op.stage and op.number in (None, other.number)
            ]
            yield device, "gradients", min(backwards), end[text], step.gradients[op.stage]
    for text, op in ops.items():
        if op.kind == "E":
            assert op.number is not None
            yield from _of_side_work(step, device_of, (start, end), text)


def _of_side_work(
    step: Step, device_of: Mapping[str, int], times: tuple[Times, Times], text: str
) -> Iterator[tuple[int, str, Fraction, Fraction, Fraction]]:
    start, end = times
    op = parse(text)
    item = step.side[op.stage]
    number = f"{op.number}.0" if step.setup.slices > 1 else f"{op.number}"
    home = step.setup.placement[item.into]
    backward = f"{op.stage}G{op.number}"
    has_backward = item.backward is not None
    yield device_of[text], "side", start[text], end[backward if has_backward else text], item.activation
    yield home, "side", end[text], start[f"{item.into}F{number}"], item.output
    if has_backward:
        whole, half = (f"{item.into}{kind}{number}" for kind in "BI")
        yield home, "side", end[whole if whole in end else half], start[backward], item.output


def _peak(changes: Sequence[tuple[Fraction, Fraction]]) -> Fraction:
    """The largest level: at one time what is given back counts before what is taken."""
    level = peak = ZERO
    for _, size in sorted(changes):
        level += size
        peak = max(peak, level)
    return peak

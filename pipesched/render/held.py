"""What devices hold, in words: activations, what else comes and goes, and static memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipesched.pipeline.metrics import ACTIVATIONS, HELD
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.step import GRADIENTS, WEIGHTS
from pipesched.render.marks import MEASURED_MEMORY
from pipesched.render.timescale import number

FEW_DEVICES = 7  # whose peaks are listed; of more, the largest and the smallest


def has_static(problem: Problem) -> bool:
    """Return whether some device holds memory all the time."""
    return any(problem.static_grains(device) for device in range(problem.devices))


def above_static(problem: Problem) -> str:
    """Return what a legend of memory says where the strips stand above static memory."""
    return " above static memory" if has_static(problem) else ""


def held_text(problem: Problem) -> str:
    """Return what the memory of a device is of: `activations and static memory`."""
    parts = ["activations"]
    parts += ["whole weights"] * problem.sharding.divides(WEIGHTS)
    parts += ["whole gradients"] * problem.sharding.divides(GRADIENTS)
    parts += ["side work"] * bool(problem.side)
    parts += ["static memory"] * has_static(problem)
    return enumerated(parts)


def enumerated(texts: Sequence[str]) -> str:
    """Return texts as a sentence lists them: `a, b and c`."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def peak_row(schedule: Schedule, every: bool) -> tuple[str, str]:
    """Return the most that a device holds, and a note of all devices, or of many the largest and the smallest."""
    what = held_text(schedule.problem)
    if schedule.own_lengths:
        what = f"{MEASURED_MEMORY}; {what}"
    return _most(schedule.memory, what, schedule.problem.memory.unit, every)


def _most(held: Sequence[int | float], what: str, unit: str, every: bool) -> tuple[str, str]:
    """Return the most of what devices hold, and a note of all devices, or of many the largest and the smallest."""
    value = f"{number(max(held))} {unit}".strip()
    if every or len(held) <= FEW_DEVICES:
        whose = f"devices 0..{len(held) - 1}" if len(held) > 1 else "device 0"
        return value, f"{what} of {whose}: {', '.join(map(number, held))}"
    texts = []
    for word, extreme in (("largest", max(held)), ("smallest", min(held))):
        devices = [device for device, one in enumerate(held) if one == extreme]
        where = f"{len(devices)} devices, {devices[0]} the first"
        if len(devices) in (1, len(held)):
            where = f"device {devices[0]}" if len(devices) == 1 else "every device"
        texts.append(f"{word} {number(extreme)} on {where}")
    extremes = texts[0].replace("largest ", "") if max(held) == min(held) else ", ".join(texts)
    return value, f"{what}: {extremes}"


def class_rows(schedule: Schedule, every: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the peak of each class of what comes and goes, where that is more than activations."""
    peaks = {what: schedule.peak_of(what) for what in HELD} if schedule.step is not None else {}
    if any(any(peaks[what]) for what in peaks if what != ACTIVATIONS):
        for what, held in peaks.items():
            if any(held):
                yield f"  {what}", *_most(held, "own peak", schedule.problem.memory.unit, every)

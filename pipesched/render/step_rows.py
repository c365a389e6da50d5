"""The rows of a summary about the step beside its passes: what of it shows in the makespan, and what is hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.step_metrics import NETWORK, PARTS, StepTimes
from pipesched.render.timescale import number

Row = tuple[str, str, str]
MOST_NAMED = 4  # operations of one part that a row names
PIPELINE = "makespan in which gathers, reductions and optimizers take no time"
EXPOSED = "makespan less that in which gathers and reductions take no time"


def step_rows(schedule: Schedule, time: Callable[[int | float], str]) -> Iterator[Row]:
    """Yield what the step costs beside its passes, and of each part of it how long it lasts and what of it shows."""
    step = schedule.step
    parts = {} if step is None else {part: step.time(part) for part in PARTS}
    lasting = {part: times for part, times in parts.items() if any(times)}
    if step is None or not lasting:
        return
    yield "pipeline", time(step.pipeline), PIPELINE
    if not lasting.keys().isdisjoint(NETWORK):
        yield "exposed", time(step.network), EXPOSED
    for part, times in lasting.items():
        yield f"  {part}", _each(times, time), _shown(schedule, step, part, time)


def _each(lasting: Sequence[int | float], time: Callable[[int | float], str]) -> str:
    """Return how long a part lasts on each device that has it."""
    found = [one for one in lasting if one]
    least, most = min(found), max(found)
    value = time(most) if least == most else f"{number(least)} to {time(most)}"
    if len(found) == len(lasting):
        return f"{value} a device" if len(lasting) > 1 else value
    return f"{value} on {devices_text([device for device, one in enumerate(lasting) if one])}"


def _shown(schedule: Schedule, step: StepTimes, part: str, time: Callable[[int | float], str]) -> str:
    """Return how much of a part shows in the makespan, by which operations, and where it is hidden."""
    said = f"{time(step.cost(part))} exposed"
    if part not in NETWORK:
        return said
    exposed = step.exposed_of(part)
    texts = [str(schedule.plan.index.op(one)) for one in exposed[:MOST_NAMED]]
    if len(exposed) > MOST_NAMED:
        texts.append(f"and {len(exposed) - MOST_NAMED} more")
    named = f" ({', '.join(texts)})" if texts else ""
    hidden = step.hidden_on(part)
    return said + named + (f", hidden on {devices_text(hidden)}" if hidden else "")


def devices_text(devices: Sequence[int]) -> str:
    """Name devices, neighbours as a range: `device 2`, `devices 0, 2-5`."""
    runs: list[list[int]] = []
    for device in devices:
        if runs and runs[-1][-1] == device - 1:
            runs[-1].append(device)
        else:
            runs.append([device])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"device{'s' * (len(devices) > 1)} {', '.join(texts)}"

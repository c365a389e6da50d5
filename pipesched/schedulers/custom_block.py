"""A user's own building block: the starts of one microbatch's operations, repeated with a period, and squeezed.

`custom_block` reads the options and plans. `schedulers/block.py` defines blocks, also those of published schedules.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any

from pipesched.checks import shown
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import TIME, Unit, grains_per_unit, in_units, read_number, whole
from pipesched.schedulers.block import Block, in_chunks, squeeze as squeezed, with_weights, works
from pipesched.schedulers.family import ANY, Family

EXAMPLE = (  # two stages, B = 2F
    "period=6, forward=[0, 1], backward=[4, 2]"
    " (in a config: algorithm: {block: {period: 6, forward: [0, 1], backward: [4, 2]}})"
)
KEYS = {"F": "forward", "B": "backward", "I": "backward_input", "W": "backward_weight"}


def custom_block(
    problem: Problem,
    *,
    period: Any = None,
    forward: Any = None,
    backward: Any = None,
    backward_input: Any = None,
    backward_weight: Any = None,
    peak: int | None = None,
    squeeze: bool = True,
) -> Plan:
    """Return the order of the block that starts F, and B or I and W, on each stage so long after its microbatch begins.

    Times are in the user's unit. W is in the first free time after I by default. `peak` is how many chunks a device may
    hold: by default what the block holds. Without `squeeze` operations keep the order of the repeated block. Raises
    ConfigError for what is no block, NotApplicable for a block that does not suit the problem.
    """
    if problem.settled_placement.mirrored:
        raise NotApplicable("block repeats one direction, not both of placement: bidirectional", "placement")
    starts = {"F": forward, "B": backward, "I": backward_input, "W": backward_weight}
    block = _block(problem, period, {kind: times for kind, times in starts.items() if times is not None})
    _in_order(problem, block)
    held = block.peak(problem)
    limit = held if peak is None else peak
    index = OpIndex("".join(block.offsets), problem.stages, problem.microbatches)
    counted, chunk = in_chunks(problem)
    graph = lower(counted, index)
    if squeeze:
        orders = squeezed(graph, index, block, [limit * chunk] * problem.devices)
    else:
        orders = graph.by_resource(block.order(index).tolist()) if held <= limit else None
    if orders is None:
        raise NotApplicable(f"the block holds {held} chunks a device by residence, more than a peak of {peak}", "peak")
    return Plan(index, orders, note=_note(problem, block, held))


def _note(problem: Problem, block: Block, held: int) -> str:
    """Say how many chunks the block holds, and whether its period is too short or too long for these costs."""
    work, scale = max(1, *works(problem)) * block.parts, problem.ticks.per_unit * block.parts
    holds = f"holds {held} {'chunk' if held == 1 else 'chunks'} a device by residence"
    if block.period == work:
        return f"the block {holds}"
    period, need = (shown(in_units(time, scale)) for time in (block.period, work))
    if block.period < work:
        return f"the block {holds}; its order counts, not its period {period}: a device works {need} for a microbatch"
    device, idle = works(problem).index(max(works(problem))), (block.period - work) / block.period
    idles = f"device {device} works {need} on a microbatch, so it idles {idle:.0%} of each period"
    return f"block: period {period}, {idles}; it {holds}"


def _block(problem: Problem, period: Any, starts: Mapping[str, Any]) -> Block:
    absent = {"period": period is None, "forward": "F" not in starts, "backward": not {"B", "I"} & starts.keys()}
    if missing := [name for name, is_absent in absent.items() if is_absent]:
        texts = [f"`{name}`{' (or `backward_input`)' * (name == 'backward')}" for name in missing]
        raise NotApplicable(f"block needs {', '.join(texts)}, for instance {EXAMPLE}", missing[0])
    if "B" in starts and len(starts) > 2:
        raise ConfigError("give either backward or backward_input and backward_weight", "backward")
    if "W" in starts and "I" not in starts:
        raise ConfigError("needs backward_input too", "backward_weight")
    offsets = {kind: _starts(KEYS[kind], times, problem) for kind, times in starts.items()}
    period_ticks = _ticks("period", period, problem)
    if not period_ticks:
        raise ConfigError(f"must be more than 0, not {shown(period)}", "period")
    parts = grains_per_unit([period_ticks, *chain.from_iterable(offsets.values())])
    begins, whole_period = {kind: whole(times, parts) for kind, times in offsets.items()}, int(period_ticks * parts)
    if "I" in offsets and "W" not in offsets:
        return with_weights(problem, begins["F"], begins["I"], whole_period, parts)
    return Block(begins, whole_period, parts)


def _starts(key: str, times: Any, problem: Problem) -> list[Fraction]:
    if not isinstance(times, (list, tuple)):
        raise ConfigError(f"must be a list with one start for each stage, not {shown(times)}", key)
    if len(times) != problem.stages:
        each = f"one start for each of the {problem.stages} stages"
        raise NotApplicable(f"a block needs {each} in {key}; this one has {len(times)}", key)
    return [_ticks(key, time, problem, entry=stage) for stage, time in enumerate(times)]


def _ticks(key: str, value: Any, problem: Problem, entry: int | None = None) -> Fraction:
    time = read_number(value, Unit(TIME, problem.time_unit), key, entry) * problem.ticks.per_unit
    if time < 0:
        raise ConfigError(f"must be at least 0, not {shown(value)}", key, entry=entry)
    return time


def _in_order(problem: Problem, block: Block) -> None:
    """Raise NotApplicable, with the entry at fault, if an operation starts before another that it waits for."""
    stages = range(problem.stages)
    gradient = "B" if "B" in block.offsets else "I"
    path = [*(("F", stage) for stage in stages), *((gradient, stage) for stage in reversed(stages))]
    hops = list(pairwise(path))
    if "W" in block.offsets:
        hops += [(("I", stage), ("W", stage)) for stage in stages]
    for (before, here), (after, there) in hops:
        first, second = block.offsets[before][here], block.offsets[after][there]
        if second < first:
            early, late = (shown(in_units(time, problem.ticks.per_unit * block.parts)) for time in (second, first))
            raise NotApplicable(
                f"{after} of stage {there} starts at {early}, before {before} of stage {here} at {late}",
                KEYS[after],
                entry=there,
            )


FAMILY = Family(
    name="block",
    plan=custom_block,
    placement=ANY,
    needs="a block of your own in the config; any placement but bidirectional",
    bubble="by simulation",
    memory="what the block holds by residence",
    paper="Pipeline Parallelism with Controllable Memory (Qi et al. 2024, arXiv 2405.15362)",
    options=("period", "forward", "backward", "backward_input", "backward_weight", "peak", "squeeze"),
    required=("period", "forward"),
    splits_backward=None,
    looks_at_each=True,
)

"""The steps that all ranks of a run recorded, and what ran in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from pipesched.analysis.measured.files import RecordedRun
from pipesched.analysis.measured.ranges import Range, Recorded, ops_of
from pipesched.checks import joined
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.pipeline.ops import Op
from pipesched.pipeline.placement import Placement


@dataclass(frozen=True)
class Steps:
    """The steps of a run that count, with their names: `ranges[n][r]` are those of rank r in step n.

    `home` is the rank of each operation, and `only` says that there was one step alone, which warms up too.
    """

    names: Sequence[str]
    ranges: Sequence[Sequence[Sequence[Range]]]
    home: dict[Op, int]
    only: bool

    @cached_property
    def stages(self) -> int:
        return 1 + max(op.stage for op in self.home)

    @cached_property
    def microbatches(self) -> int:
        return 1 + max(op.microbatch for op in self.home)

    @cached_property
    def letters(self) -> str:
        """The kinds of operations that ran."""
        return "".join({op.kind for op in self.home})


def steps_of(run: RecordedRun) -> Steps:
    """Return the steps that count: without the first, which warms up, and without those that were cut off.

    Raises ConfigError where the file of a rank is missing, and InvalidSchedule, naming ranks, for files that are not of
    one run.
    """
    ranks = run.ranks
    whole = []  # of each rank the steps with the operations that most steps have: not one cut off by the end
    for rank in ranks:
        ran = {name: frozenset(chain(*(ops_of(one.slot) for one in step))) for name, step in rank.steps.items()}
        usual = max(Counter(ran.values()).items(), key=lambda item: (item[1], len(item[0])))[0]
        whole.append({name for name, ops in ran.items() if ops == usual})
    names = [name for name in ranks[0].steps if all(name in steps for steps in whole)]
    for rank, own in zip(ranks, whole, strict=True):
        if len(own) != len(whole[0]) and len(rank.steps) != len(ranks[0].steps):
            raise _two_runs([f"rank {rank.rank} ran {len(own)} steps", f"rank {ranks[0].rank} ran {len(whole[0])}"])
    if not names:
        raise _two_runs([f"rank {rank.rank} has the steps {', '.join(rank.steps)}" for rank in ranks])
    first = next(iter(ranks[0].steps))
    counted = [name for name in names if name != first]
    names = counted or names
    home: dict[Op, int] = {}
    for place, rank in enumerate(ranks):
        for op in chain.from_iterable(ops_of(one.slot) for one in rank.steps[names[0]]):
            if op in home:
                raise _two_runs([f"{op} ran on rank {ranks[home[op]].rank}", f"{op} ran on rank {rank.rank}"])
            home[op] = place
    steps = Steps(names, [[rank.steps[name] for rank in ranks] for name in names], home, only=not counted)
    _require_every_stage(steps, ranks)
    return steps


def _require_every_stage(steps: Steps, ranks: Sequence[Recorded]) -> None:
    """Raise ConfigError where a stage has no file, and InvalidSchedule where ranks have other microbatches."""
    there = {op.stage for op in steps.home}
    wanted = {*range(steps.stages), *chain.from_iterable(rank.peers for rank in ranks)}
    missing = sorted(stage for stage in wanted - there if stage >= 0)
    if missing:
        numbers = [rank.rank for rank in ranks]
        gap = next((number for number in range(max(numbers)) if number not in numbers), None)
        whose = "a rank is" if gap is None else f"rank {gap} is"
        raise ConfigError(
            f"{whose} missing: no file has stage {joined([*map(str, missing)])};"
            f" there are ranks {joined([*map(str, numbers)])}"
        )
    counts = Counter(op.stage for op in steps.home if op.kind == "F")
    for stage in range(steps.stages):
        if counts[stage] != steps.microbatches:
            most = next(one for one in range(steps.stages) if counts[one] == max(counts.values()))
            rows = []
            for one in (stage, most):
                on = joined(
                    [str(ranks[at].rank) for at in sorted({at for op, at in steps.home.items() if op.stage == one})]
                )
                rows.append(f"{counts[one]} forwards of stage {one} on rank {on}")
            raise _two_runs(rows if stage != most else rows[:1])


def _two_runs(said: Sequence[str]) -> InvalidSchedule:
    return InvalidSchedule(f"these are not the files of one run: {'; '.join(said)}", said)


def _fed(placement: Placement, steps: Steps) -> Placement:
    """Return a placement with the microbatches that go the second way: those that enter at the device further on."""
    if len(placement.ways) == 1:
        return placement
    entries = [steps.home[Op._make((0, "F", microbatch, 0))] for microbatch in range(steps.microbatches)]
    seconds = [microbatch for microbatch, entry in enumerate(entries) if entry != entries[0]]
    if seconds == [*range(steps.microbatches // 2, steps.microbatches)]:
        return placement
    if entries[0] > placement.last - entries[0]:
        placement = replace(placement, devices=placement.ways[1])
        seconds = [microbatch for microbatch, entry in enumerate(entries) if entry == entries[0]]
    return replace(placement, second=tuple(seconds))


def placement_of(steps: Steps, devices: int, planned: Placement | None = None) -> Placement:
    """Return where the stages ran, which is as `planned` where that has all operations where they ran.

    Raises InvalidSchedule for a stage on two ranks, unless all are in both directions.
    """
    if planned is not None and len(planned.ways) > 1 and len(planned.devices) == steps.stages:
        homes = (planned.device(op.stage, op.microbatch, steps.microbatches) for op in steps.home)
        if all(map(int.__eq__, homes, steps.home.values())):
            return planned
    half, stages = steps.microbatches // 2, range(steps.stages)
    first = tuple(steps.home[Op._make((stage, "F", 0, 0))] for stage in stages)
    mirrored = any(steps.home[op] != first[op.stage] for op in steps.home)
    placement = _fed(Placement(first, mirrored), steps)
    for op, place in steps.home.items():
        due = placement.device(op.stage, op.microbatch, steps.microbatches)
        if place != due:
            text = f"{op.stage}{op.kind}0 ran on rank {first[op.stage]}, {op} on rank {place}"
            both = f" in both directions ({half} each)" if mirrored else ""
            why = f"{text}, which is no placement of stages{both}"
            raise InvalidSchedule(why, [why])
    if set(first) != {*range(devices)}:
        idle = min({*range(devices)} - {*first})
        raise InvalidSchedule(f"rank {idle} ran no stage", [f"rank {idle} ran no stage"])
    return placement

"""Frameworks: the text that makes one train by a schedule (`hand_over`), or why it cannot and what is nearest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pipesched.checks import look_up
from pipesched.display import from_file
from pipesched.errors import ConfigError, Inexpressible
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.plan.step import GRADIENTS, LEVELS, NOTHING, OPTIMIZER_STATES, WEIGHTS
from pipesched.pipeline.problem.kinds import KINDS
from pipesched.pipeline.problem.problem import Problem
from pipesched.results.handover import megatron, torchtitan
from pipesched.results.handover.subject import (
    GROUPED,
    SLICED,
    UNLIKE,
    Answer,
    Refusal,
    Subject,
    has_unlike_messages,
    no_whole_step,
    subject_of,
)
from pipesched.results.outcome import Outcome
from pipesched.results.run import run
from pipesched.schedulers.one_f_one_b import group_sizes
from pipesched.schedulers.registry import own_name

PARTS = {OPTIMIZER_STATES: "optimizer states", GRADIENTS: "gradients", WEIGHTS: "weights"}  # that a level adds
ZERO_1 = (NOTHING, OPTIMIZER_STATES)  # the levels of frameworks that divide no more than optimizer states


class Framework(NamedTuple):
    """A framework: what it answers, and what its schedules have."""

    name: str
    answers: Callable[[Subject], Answer]
    has: Collection[str]  # families
    saving: str  # how it saves memory where we have operations, in words
    takes_orders: bool = False  # it also runs an order of no family, from a file
    takes_slices: bool = False  # it cuts microbatches
    levels: tuple[str, ...] = ZERO_1  # those of `shard` that its pipelines have
    has_groups: bool = False  # not all data-parallel ranks need to divide together
    takes_shapes: bool = False  # messages of microbatches may differ in size

    def answer(self, subject: Subject) -> Answer:
        why = no_whole_step(subject.problem, self.name, takes_slices=self.takes_slices)
        if why is None and has_unlike_messages(subject.problem) and not self.takes_shapes:
            why = f"{self.name} runs {UNLIKE}"
        if why is not None:
            return Refusal(why)
        shard = subject.problem.shard
        if shard is not None and shard.level not in self.levels:
            above = LEVELS[1 : LEVELS.index(shard.level) + 1]
            undivided = " and ".join(PARTS[level] for level in above if level not in self.levels)
            most = f"level {self.levels[-1]} is the most"
            return Refusal(f"{self.name} divides no {undivided} among data-parallel ranks in its pipelines: {most}")
        if subject.known.get("instances") and not self.has_groups:
            ranks = "{same} data-parallel ranks, and here groups of {ranks} do".format(**subject.known)
            return Refusal(f"{self.name} divides optimizer states among all {ranks}")
        if not subject.saving:
            return self.answers(subject)
        kinds = " and ".join(f"{KINDS[letter].name.partition(' ')[0]} ({letter})" for letter in subject.saving)
        return Refusal(f"{self.name} has no operations for {kinds} in its schedules; it has {self.saving}")


BLOCKS = "the stages of the config, which were cut as blocks, were taken for decoder layers"
FRAMEWORKS = {
    "megatron": Framework(megatron.NAME, megatron.answer, megatron.HAS, megatron.SAVING, has_groups=True),
    "torchtitan": Framework(
        torchtitan.NAME, torchtitan.answer, torchtitan.CLASSES, torchtitan.SAVING, True, levels=LEVELS, has_groups=True
    ),
    "deepspeed": Framework(
        torchtitan.DEEPSPEED, torchtitan.deepspeed_answer, torchtitan.MODULES, torchtitan.DEEPSPEED_SAVING,
        takes_shapes=True,
    ),
    "megatron-bridge": Framework(megatron.BRIDGE, megatron.bridge_answer, megatron.HAS, megatron.SAVING),
    "maxtext": Framework(
        torchtitan.MAXTEXT, torchtitan.maxtext_answer, torchtitan.MAXTEXT_HAS, torchtitan.MAXTEXT_SAVING,
        levels=(NOTHING, WEIGHTS),
    ),
    "primus": Framework(megatron.PRIMUS, megatron.primus_answer, megatron.ALGORITHMS, megatron.PRIMUS_SAVING),
    "zero-bubble": Framework(
        megatron.ZERO_BUBBLE, megatron.zero_bubble_answer, megatron.ZERO_BUBBLE_FLAGS, megatron.ZERO_BUBBLE_SAVING,
        takes_slices=True,
    ),
}  # fmt: skip


def hand_over(
    schedule: Schedule | Outcome | str | Path | Callable[..., Any],
    framework: str,
    *,
    layers: Sequence[int] | str | None = None,
    problem: Problem | None = None,
) -> str:
    """Return the text that makes a framework train by a schedule: to paste, with remarks behind "# ".

    What counts is the order, not the name that a schedule has: one of a solve that equals 1F1B is 1F1B. Where a group
    size was found, and the framework refuses it, the text is that of the shortest it takes.

    Args:
        schedule: The schedule, or the name of its file; checked first.
        framework: "megatron" (flags), "torchtitan" (flags), "deepspeed" (Python), "megatron-bridge" (Python), "maxtext"
            (options), "primus" (YAML) or "zero-bubble" (flags of the fork of Megatron-LM).
        layers: The decoder layers of each stage, or Megatron-LM's text; default: those of a problem by layers or of a
            model, if it has them.
        problem: The costs, where the file is a CSV, and what an algorithm, its name or its function, schedules.

    Raises:
        ConfigError: For a framework that is not known, and layers that are not one number a stage.
        Inexpressible: Where the framework has no such schedule: why, and the nearest that it has.
        InvalidSchedule: For a schedule that breaks a rule.
    """
    to = look_up(FRAMEWORKS, framework, "framework", "framework")
    given = from_file(schedule, problem, "schedule")
    grouped = suited(given, framework) if isinstance(given, Outcome) else given
    subject = subject_of(grouped, layers)
    checked(subject.schedule)
    found = to.answer(subject)
    if isinstance(found, Refusal):
        wanted = ["1f1b", *torchtitan.MAXTEXT_HAS]
        if subject.problem.slices.count > 1:
            wanted.insert(0, SLICED)
        if subject.chunks > 1 and subject.placement != "linear" and subject.microbatches >= subject.devices:
            wanted.insert(0, GROUPED)
        if subject.placement == "v":
            wanted = ["zb-v", *[torchtitan.WHOLE] * (subject.microbatches >= 2 * subject.devices), *wanted]
        if subject.placement == "bidirectional":
            wanted = ["dualpipe-v", GROUPED, "1f1b", *torchtitan.MAXTEXT_HAS]
        nearest = next(name for name in wanted if name in to.has)
        is_asked = nearest in (subject.family, own_name(subject.outcome.algorithm))
        hint = "" if is_asked else f"; the nearest that it has is {nearest}"
        raise Inexpressible(f"{found.sentence}{hint}", nearest)
    remarks = [*[subject.schedule.plan.note] * (grouped is not given), *found.remarks]
    by_layers = subject.problem.layers
    if layers is None and by_layers is not None and by_layers.blocks:
        remarks.append(BLOCKS)
    if subject.fed:  # not by their numbers
        count = f"the text and {found.file} count" if found.file else "the text counts"
        remarks.append(f"feed the microbatches in this order: {subject.fed}; {count} them as they are fed")
    return "".join(f"{line}\n" for line in [*found.lines, *(f"# {remark}" for remark in remarks)])


def suited(outcome: Outcome, trainer: str, made_by: str = "") -> Outcome:
    """Return a schedule, or where its group size was found and is refused, the shortest whose size a trainer takes."""

    def takes(one: Outcome, made_by: str = "") -> bool:
        return not isinstance(FRAMEWORKS[trainer].answer(subject_of(one, made_by=made_by)), Refusal)

    is_open = outcome.is_grouped and trainer in FRAMEWORKS and not Subject(outcome).saving
    if not is_open or takes(outcome, made_by):
        return outcome
    others, order = list[Outcome](), None if outcome.ordering is None else outcome.order
    for size in group_sizes(outcome.problem):
        with suppress(ConfigError):  # of a size that deadlocks
            others.append(run(outcome.problem, outcome.algorithm, group_size=size, order=order))
    for found in sorted(others, key=lambda one: (not one.schedule.fits, one.schedule.makespan_ticks)):
        if takes(found):
            schedule, sizes = found.schedule, [Subject(one).group_size for one in (found, outcome)]
            note = f"groups of {sizes[0]}: {trainer} refuses those of {sizes[1]}"
            return replace(found, schedule=replace(schedule, plan=replace(schedule.plan, note=note)))
    return outcome

"""What is handed over (`Subject`, made by `subject_of`), and what comes back: a `HandoverText`, or a `Refusal`.

A framework's function asks a subject which `family` makes its order, and what of a table the model says (`told`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import ne
from typing import Any, NamedTuple

from pipesched.checks import require_sequence, require_type, require_whole
from pipesched.errors import ConfigError, Deadlock, NoSchedule, NotApplicable
from pipesched.pipeline.layers.layers import rows_of
from pipesched.pipeline.layers.layout_text import (
    StageItems,
    layout_text,
    looks_like_text,
    read_megatron_text,
    stages_of_counts,
)
from pipesched.pipeline.layers.recut import one_way
from pipesched.pipeline.plan.message_programs import with_queues
from pipesched.pipeline.plan.metrics import ACTIVATIONS
from pipesched.pipeline.plan.plan import renumbered, without_step
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.plan.step import GRADIENTS, NOTHING, OPTIMIZER_STATES, Shard
from pipesched.pipeline.problem.kinds import COMPUTATION_LETTERS
from pipesched.pipeline.problem.placement import named_placement
from pipesched.pipeline.problem.problem import Problem, in_order
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.results.outcome import Outcome
from pipesched.schedulers.block import in_chunks
from pipesched.schedulers.family import prepare
from pipesched.schedulers.plan_of import plan_of
from pipesched.schedulers.registry import family, own_name


def facts_of_shard(shard: Shard | None, data: int = 0, context: int = 1) -> dict[str, Any]:
    """Return what `shard` says, by the keys of the tables, of `data` x `context` ranks with the same weights."""
    if shard is None:
        return {"replicated": True}
    total, of_optimizer, is_fsdp = data * context, shard.level == OPTIMIZER_STATES, shard.divides(GRADIENTS)
    return {
        "undivided": shard.level == NOTHING, "distributed_optimizer": of_optimizer, "overlapped": of_optimizer,
        "fsdp": is_fsdp, "replicated": not is_fsdp, "reshard": "always" if shard.gathers_each else "never",
        "ranks": shard.ranks, "same": total, "replicas": total // shard.ranks, "shards": shard.ranks // context,
        "instances": of_optimizer and shard.ranks < total,
    }  # fmt: skip


def torchtitan_modules(stages: Sequence[StageItems]) -> list[list[str]]:
    """Return the modules of each stage as torchtitan 0.3.0 names them. Raises NotApplicable for others."""
    if any(stage.mtp for stage in stages):
        raise NotApplicable("torchtitan has no layers of multi-token prediction (MTP): `num_nextn_predict_layers` 0")
    if (losses := sum(stage.head for stage in stages)) > 1:
        raise NotApplicable(f"torchtitan has one loss, and here {losses} stand")
    modules, layer = list[list[str]](), 0
    for number, stage in enumerate(stages):
        if not stage.items:
            raise NotApplicable(f"stage {number} has none of torchtitan's modules, and its optimizer needs some")
        layers = [f"layers.{number}" for number in range(layer, layer + stage.layers)]
        layer += stage.layers
        modules.append([*["tok_embeddings"] * stage.embedding, *layers, *["norm", "lm_head"] * stage.head])
    return modules


GROUPED, OVERLAPPED = "interleaved", "interleaved-overlap"
KNOWN = (  # whose orders are looked for, the first of those that agree; others only by the name of the schedule
    "1f1b", GROUPED, "naive", "zb-h1", "zb-h2", "looped-bfs", "interleaved-zb", "1f1b-v", "zb-v", "v-half", "v-min",
    "dualpipe-v", "dualpipe-v-whole", OVERLAPPED,
)  # fmt: skip
SLICED = "seq-1f1b"  # the family whose order of slices is looked for
COSTLY = ("zb-auto",)  # families that are planned again only where the schedule has their name


class HandoverText(NamedTuple):
    """Lines to paste, remarks on them, and the file that they name, which holds the order."""

    lines: Sequence[str]
    remarks: Sequence[str] = ()
    file: str = ""


class Refusal(NamedTuple):
    """Why a framework cannot express a schedule; `has`, if anything, is what it has."""

    why: str
    has: str = ""

    @property
    def sentence(self) -> str:
        """What it has, and why that is not enough."""
        return f"{self.has}; {self.why}" if self.has else self.why


Answer = HandoverText | Refusal


class Subject:
    """A schedule to hand over. `layers` are the items of each stage, None where they are not known.

    Its microbatches count by the places in which they are fed; `fed` says which data these are, and where the order is
    from ("": they are fed by their numbers). `made_by` is the algorithm that made it with its default options; "" where
    that is not known.
    """

    def __init__(
        self, outcome: Outcome, layers: tuple[StageItems, ...] | None = None, made_by: str = "", fed: str = ""
    ) -> None:
        self.outcome, self.layers, self.made_by, self.fed = outcome, layers, made_by, fed
        self.schedule, self.problem = outcome.schedule, outcome.problem
        self.devices, self.microbatches = self.problem.devices, self.problem.microbatches  # P and M

    @cached_property
    def chunks(self) -> int:
        """V, the most stages that a device has."""
        return max(len(self.problem.settled_placement.stages_on(device)) for device in range(self.devices))

    @cached_property
    def placement(self) -> str:
        """The name of the stage map: linear (a stage a device), loop, v, bidirectional, or "" for any other."""
        placement, devices, stages = self.problem.settled_placement, self.devices, self.problem.stages
        if len(placement.ways) > 1:
            return "bidirectional"
        is_loop = stages > devices and stages % devices == 0
        names = ["linear"] * (stages == devices) + ["loop"] * is_loop + ["v"] * (stages == 2 * devices)
        return next((name for name in names if placement == named_placement(name, devices, stages)), "")

    @property
    def saving(self) -> list[str]:
        """The kinds R, O and L, as far as operations of them stand in the plan."""
        plan = self.schedule.plan
        return [kind for kind in plan.index.letters if kind not in COMPUTATION_LETTERS and plan.count(kind)]

    @cached_property
    def known(self) -> dict[str, Any]:
        """What the model behind the problem says, by the keys of the tables of frameworks; nothing without a model."""
        if self.problem.cutter is None:
            return {}
        facts = self.problem.cutter.facts()
        size = facts["micro"] * facts["data"] * self.microbatches
        numbers = {"devices": self.devices, "microbatches": self.microbatches, "size": size}
        shard = facts_of_shard(self.problem.shard, facts["data"], facts["context"] or 1)
        return {**facts, **numbers, "step": size * facts["sequence"], **shard}

    def told(self, table: Mapping[str, str]) -> list[str]:
        """Return the texts of a table whose keys the model knows, with its values."""
        return [text.format(**self.known) for key, text in table.items() if self.known.get(key)]

    def told_of_shard(self, table: Mapping[str, str]) -> list[str]:
        """Return the remark on `shard` where no model says how many ranks there are: the texts of a table."""
        if self.problem.shard is None or self.problem.cutter is not None:
            return []
        facts = facts_of_shard(self.problem.shard)
        texts = [text.format(**facts) for key, text in table.items() if facts.get(key)]
        return [f"shard {self.problem.shard.level}: {' '.join(texts)}"] if texts else []

    @property
    def is_uneven(self) -> bool:
        """Whether stages are known to have other numbers of layers than each other."""
        return self.layers is not None and len({stage.layers for stage in self.layers}) > 1

    @cached_property
    def family(self) -> str:
        """The name of the family whose order the schedule has, "" where none of those that frameworks have does."""
        known = KNOWN if self.problem.slices.count == 1 else (SLICED,)
        own, named = own_name(self.outcome.algorithm), (*known, *COSTLY)
        if self.saving or self.placement in ("", "bidirectional"):
            return ""
        if self.made_by in named:
            return self.made_by
        names = [*[own] * (own in named), *(name for name in known if name != own)]
        return next((name for name in names if self._has_order_of(name)), "")

    @property
    def described(self) -> str:
        return self.family or f"the order of {self.outcome.algorithm!r}"

    @cached_property
    def group_size(self) -> int:
        """G, how many microbatches run one after the other on a chunk: the first forwards of the same stage."""
        slots = [*self.schedule.plan.slots(0)]
        return next((count for count, slot in enumerate(slots) if str(slot) != f"0F{count}"), len(slots))

    def _has_order_of(self, name: str) -> bool:
        """Return whether the family makes the same order of the same problem; no trainer joins what it splits."""
        known, problem = family(name), self.problem
        if problem.costs.chooses and known.splits_backward:
            problem = one_way(problem, split=True)
        try:
            fitted = prepare(problem, known)
            is_alike = fitted.stages == self.problem.stages and fitted.placement == self.problem.placement
            splits = self.problem.costs.split if known.splits_backward is None else known.splits_backward
            if not is_alike or splits != bool(self.schedule.plan.count("I")):
                return False
            if known.most_chunks is not None and self._most_chunks > known.most_chunks(self.problem):
                return False  # counting that takes less time than planning by a family that searches
            options: dict[str, Any] = {}
            if name in (GROUPED, OVERLAPPED) and self.chunks > 1:
                options["group_size"] = min(max(self.group_size, 1), self.microbatches)
            plan = plan_of(known, fitted, **options)
        except (ConfigError, NoSchedule, Deadlock):
            return False
        mine = without_step(self.schedule.plan)
        return all([*plan.slots(device)] == [*mine.slots(device)] for device in range(self.devices))

    @cached_property
    def _most_chunks(self) -> int:
        """The most activations that a device holds at once."""
        alike = replace(self.problem, sizes=None, memory=replace(self.problem.memory, kv=0))
        counted, chunk = in_chunks(alike)
        return max(schedule_plan(counted, self.schedule.plan).peak_grains_of(ACTIVATIONS)) // chunk


def subject_of(schedule: object, layers: object = None, made_by: str = "") -> Subject:
    """Return a Schedule or an Outcome with the layers of its stages, given or its own. Raises ConfigError."""
    outcome = Outcome(schedule.name, schedule) if isinstance(schedule, Schedule) else schedule
    given: Outcome = require_type(outcome, Outcome, "a Schedule or an Outcome", "schedule")
    checked, fed, order = given, "", given.schedule.order
    if given.problem.rounds == 1 and any(map(ne, order, range(len(order)))):  # numbered as they are fed
        places = sorted(range(len(order)), key=order.__getitem__)
        alike = replace(in_order(given.problem, order), placement=given.problem.settled_placement.by_number)
        source = "" if given.ordering is None else f" ({given.ordering.source(given.algorithm)})"
        again = schedule_plan(with_queues(alike, None), renumbered(without_step(given.schedule.plan), places))
        checked, fed = Outcome(given.algorithm, again), f"{', '.join(map(str, order))}{source}"
    stages = checked.problem.stages
    if layers is None:
        known = () if checked.problem.cutter is None else checked.problem.cutter.facts()["stages"]
        stages_of = known if len(known) == stages else None
        if checked.problem.layers is not None:
            stages_of = checked.problem.layers.stage_items
        return Subject(checked, stages_of, made_by, fed)
    if looks_like_text(layers):
        found = read_megatron_text(str(layers))
        if len(found) != stages:
            raise ConfigError(f"is for {len(found)} stages; there are {stages}", "layers")
    else:
        entries = enumerate(require_sequence(layers, "layers"))
        counts = [require_whole(count, "layers", entry=entry) for entry, count in entries]
        if len(counts) != stages:
            raise ConfigError(f"needs {stages} numbers (one a stage); this has {len(counts)}", "layers")
        found = stages_of_counts(counts)
    subject, total = Subject(checked, found, made_by, fed), sum(stage.layers for stage in found)
    if subject.known and total != subject.known["layers"]:
        raise ConfigError(f"has {total} layers; the model has {subject.known['layers']}", "layers")
    return subject


def has_unlike_messages(problem: Problem) -> bool:
    """Return whether microbatches differ in the size of what stages send: by `sizes`, or by tables of theirs."""
    if problem.sizes is not None and max(len({*of}) for of in (problem.sizes.message, problem.sizes.activation)) > 1:
        return True
    return max(map(rows_of, (problem.costs.p2p, problem.memory.activation))) > 1


UNLIKE = "microbatches of one shape, and here their messages or activations differ in size (`sizes`)"


def no_whole_step(problem: Problem, trainer: str, *, takes_slices: bool = False) -> str | None:
    """Return why a trainer of whole steps runs no schedule of a problem, None if it may; some `takes_slices`."""
    if problem.mode == FORWARD_ONLY:
        return f"{trainer} trains, and this schedule has forward passes alone"
    if problem.slices.count > 1 and not takes_slices:
        return f"{trainer} runs whole microbatches, and this schedule cuts each into {problem.slices.count} slices"
    if problem.side:
        return f"{trainer} has no side work in its schedules, and this one has (operations E and G)"
    return None


def layout_lines(letters: str, stages: Sequence[StageItems], devices: int) -> Iterator[str]:
    """Yield what to give to Megatron-LM and to torchtitan for stages on so many devices; `letters` of a hybrid."""
    yield "# Megatron-LM"
    flag = "--hybrid-layer-pattern" if letters else "--pipeline-model-parallel-layout"
    yield f"--pipeline-model-parallel-size {devices} {flag} '{layout_text(letters, stages)}'"
    yield ""
    yield "# torchtitan: module_fqns_per_model_part"
    try:
        modules = torchtitan_modules(stages)
    except NotApplicable as error:
        yield f"# {error.message}"
        return
    yield from ("[", *(f"    {names},".replace("'", '"') for names in modules), "]")


def layout_document(letters: str, stages: Sequence[StageItems]) -> dict[str, Any]:
    """Return format "pipesched.layout" (version 1): the texts, null where a framework cannot have these stages."""
    content = {"format": "pipesched.layout", "version": 1, "megatron": layout_text(letters, stages)}
    try:
        return {**content, "torchtitan": torchtitan_modules(stages)}
    except NotApplicable:
        return {**content, "torchtitan": None}

"""From a setup to a Problem, in ms and GB: the model's items cut into stages, whose times and memory these make.

`derive`, near the end, is where one begins. `outline` makes a problem without costs, with a `SetupCutter`. When the
placement is known its `cut` finds where stages end (`_ends`) and makes the `problem` of what their items take together
(`_costs`). An item is what a stage holds whole, a layer say. `step_values` is what `shard` adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, chain, pairwise, product
from math import inf, nextafter
from typing import Any

from pipesched.errors import ConfigError, NotApplicable, blame
from pipesched.estimation.communication import gather_terms, hop_times, reduce_terms, tied_terms
from pipesched.estimation.items import GB, LAYER, Item, Items, Stage, copies_sent, hides_experts, pair_time, partner
from pipesched.estimation.memory import CONTEXT, FRAGMENTATION, state_bytes
from pipesched.estimation.model import items_of
from pipesched.estimation.setup import ADAM, DEEPEP, GATHER as GATHERED, NONE, Setup
from pipesched.estimation.terms import ATTENTION as ATTENDING, PER_MS, Terms, total
from pipesched.estimation.times import OPERATIONS, optimizer_terms
from pipesched.pipeline.layers.cutting import CutItems, balanced_layout
from pipesched.pipeline.layers.layers import BALANCED, EQUAL, LayerCosts, Layers, equal_layout, least_counts
from pipesched.pipeline.layers.layout_text import StageItems, read_megatron_text, stages_of, stages_of_counts
from pipesched.pipeline.layers.recut import recut, speeds_of
from pipesched.pipeline.plan.step import ALL, GRADIENTS, NOTHING, OPTIMIZER_STATES, WEIGHTS
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.costs import STEP_TIMES
from pipesched.pipeline.problem.placement import Placement, named_placement
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import (
    MEMORY,
    MOST_DIGITS,
    TIME,
    Unit,
    exact_number,
    is_several,
    rounded,
    to_fraction,
)
from pipesched.pipeline.problem.readers import read_placement
from pipesched.pipeline.problem.units import FORWARD_ONLY, SHARED, WHOLE_ONLY, Slices, read_slices, with_attentions


def read_layout(setup: Setup, layout: tuple[int, ...] | str) -> tuple[StageItems, ...]:
    """Return the stages of a given layout. Raises ConfigError where they do not hold the model once, in order."""
    model = setup.model
    if isinstance(layout, str) and model.letters and not {*layout} & {*"tL"}:
        parts = "".join(layout.split()).split("|")
        if "".join(parts) != model.letters:
            said = f"must be the pattern of the model with | between stages: {model.letters}"
            raise ConfigError(said, "training.layout")
        layout = (*map(len, parts),)
    if isinstance(layout, str):
        with blame("training.layout"):
            found = read_megatron_text(layout)
    else:
        found = stages_of_counts(layout, model.mtp)
    for what, count, there in (
        ("layers", sum(one.layers for one in found), model.layers),
        ("MTP layers", sum(one.mtp for one in found), model.mtp),
    ):
        if count != there:
            raise ConfigError(f"has {count} {what}; the model has {there}", "training.layout")
    if (losses := sum(one.head for one in found)) > 1:
        what = "those of MTP layers are estimated with these, and `mtp` of measured layers tells them apart"
        raise ConfigError(f"has {losses} losses (L); the model has 1: {what}", "training.layout")
    return found


HALVES = ("backward_input", "backward_weight")
GATHER, REDUCE, OPTIMIZER = STEP_TIMES
TERMS = {GATHER: gather_terms, REDUCE: reduce_terms, OPTIMIZER: optimizer_terms}
DIVIDED = {"weights": WEIGHTS, "gradients": GRADIENTS, "states": OPTIMIZER_STATES}  # by the level that divides them
BY_STAGE = (  # parameters of make_problem that, given, say what stages take and hold, whatever their items
    "forward", "backward", "backward_input", "backward_weight", "recompute", "overlap", "activation", "retain",
    "static", "p2p",
)  # fmt: skip
UNLIKE = ("sizes", "slices", "mode")  # parameters with which microbatches differ
PARTS = {"forward", "backward", "backward_input", "backward_weight", "overlap"}  # parameters that pairs follow from
MEASURED = ("forward", "activation", "static")  # by which cuts are balanced
WORDS = (BALANCED, EQUAL)  # of `training.layout`, by which layers are cut
BESIDE = ("microbatches", "budget", "name", "lanes", "speed", "links")  # parameters that no cut changes
SIZES = ("devices", "stages", "chunks", "layers", "layer", "first", "last", "mtp", "layout", "time_unit", "unit")


def sliced(given: Any, stages: Sequence[Stage], microbatches: Sequence[Items]) -> Slices:
    """Return the slices that `slices` of make_problem means, by attention in the mean. Raises ConfigError."""
    if any(len(documents) > 1 for items in microbatches for documents in items.setup.batch.lengths or ()):
        raise ConfigError("cut microbatches of one document each; `batch.lengths` has several in one", "slices")
    mapping = {**given} if isinstance(given, Mapping) else {"count": given}
    unit = Unit(TIME, "ms")
    if {"attention", "work"} & {key for key, value in mapping.items() if value is not None}:
        return read_slices(mapping, len(stages), unit)
    columns = [[Stage(items, stage.begin, stage.end) for stage in stages] for items in microbatches]
    attentions = tuple(tuple(_attention(column, [key]) for column in zip(*columns, strict=True)) for key in SHARED)
    whole = _attention([*chain.from_iterable(columns)], SHARED)
    slices = read_slices({**mapping, "attention": whole}, len(stages), unit)
    if slices.rule is not None:
        return replace(slices, rule=slices.rule._replace(attentions=attentions))
    return with_attentions(slices, attentions)


def _attention(stages: Sequence[Stage], kinds: Sequence[str]) -> Fraction:
    """Return the part of the attention core in the time of these kinds of some stages."""
    core = whole = Fraction(0)
    for stage in stages:
        for item in stage.held:
            for kind in kinds:
                terms = getattr(item.times, kind)
                whole += Fraction(total(terms))
                core += Fraction(total(term for term in terms if term.kind == ATTENDING))
    return rounded(core / whole) if whole else Fraction(0)


def step_terms(setup: Setup, stage: Stage | Item, what: str) -> Terms:
    """Return what the gather, the reduction or the optimizer of a stage is made of, or of an item as a stage alone."""
    count, experts = stage.size("parameters"), stage.size("experts")
    return TERMS[what](setup, count - experts, experts, *[stage.size("low")] * (what == GATHER))


def milliseconds(terms: Terms) -> Fraction:
    """Return the sum of terms as the schedule has it, in whole microseconds."""
    return Fraction(round(float(total(terms)) * PER_MS), PER_MS)


def step_values(setup: Setup, stages: Sequence[Stage], placement: Placement, *, trains: bool = True) -> dict[str, Any]:
    """Return costs and memory of stages beside those of passes, by parameters of make_problem; none without `shard`."""
    training = setup.training
    if training.shard is None:
        return {}
    tied = tied_terms(setup, placement)
    times = [*([] if training.shard == NOTHING else [GATHER]), *([REDUCE, OPTIMIZER] if trains else [])]
    sizes = [*DIVIDED] if trains else ["weights"]
    ranks = setup.shard_group().ranks
    divided = {key: ranks if training.divides(level) else 1 for key, level in DIVIDED.items()}
    # what stays of a stage if the ranks that divide dense parameters divide those of experts too
    held = [sum((_whole(setup, stage, key) / of for key, of in divided.items()), Fraction(0)) for stage in stages]
    return {
        **{key: [milliseconds(step_terms(setup, stage, key)) for stage in stages] for key in times},
        **({"tied": milliseconds(tied)} if tied and trains else {}),
        **{key: [_whole(setup, stage, key) / GB for stage in stages] for key in sizes},
        "static": [(stage.states - kept + stage.size("logits")) / GB for stage, kept in zip(stages, held, strict=True)],
        "shard": {"level": training.shard, "ranks": ranks},
    }


def with_keys(derived: Mapping[str, Any] | None, given: Any) -> Any:
    """Return `shard` with given keys, or a level, on top of what is derived. Raises NotApplicable for level none."""
    above = {"level": given} if isinstance(given, str) else given
    if not derived or not isinstance(above, Mapping):
        return derived if given is None else given
    if NOTHING == above.get("level") != derived["level"]:
        what = f"level none beside `training.shard` {derived['level']}, which gathers and reductions follow from"
        raise NotApplicable(f"{what}: set that to none", "shard", entry="level")
    return {**derived, **above}


def _whole(setup: Setup, stage: Stage, key: str) -> Fraction:
    """Return the bytes of weights, gradients or states of a stage where nothing is divided."""
    each = state_bytes(setup.training)
    count = stage.size("parameters")
    if key != "weights":
        return count * (each.gradient if key == "gradients" else each.optimizer)
    few = Fraction(0) if setup.recipe is None else setup.recipe.weight_bytes(setup.hardware) - each.weight
    return count * each.weight + (stage.size("low") + stage.size("experts")) * few


@dataclass(frozen=True)
class SetupCutter:
    """Cuts the model of a setup at `ends` into stages; `replaced` parameters count instead of what is derived."""

    setup: Setup
    replaced: Mapping[str, Any]
    ends: tuple[int, ...] = ()

    @cached_property
    def items(self) -> Items:
        """The items of the model; where documents are packed, of the longest microbatch."""
        return Items(self.setup)

    @cached_property
    def items_of_microbatches(self) -> list[Items]:
        """The items of each microbatch, where documents are packed; alike ones are the same object."""
        setups = self.setup.of_microbatches
        known = {id(setup): Items(setup) for setup in setups}
        return [known[id(setup)] for setup in setups]

    def __getstate__(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in ("setup", "replaced", "ends")}

    @cached_property
    def spans(self) -> Sequence[tuple[int, int]]:
        """The first item of each stage, and the one behind its last, once they are cut."""
        return [*zip((0, *self.ends), self.ends, strict=False)]

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self._stages_of(self.items)

    @property
    def is_open(self) -> bool:
        """Whether a solve may choose where stages end: nothing says it, or what they take; all are alike."""
        is_alike = self.setup.batch.lengths is None and self.setup.training.layout in (None, BALANCED)
        return is_alike and {*UNLIKE, *BY_STAGE}.isdisjoint(self.replaced)

    @property
    def seeks_best(self) -> bool:
        """Whether a run looks for the cut of least makespan under its algorithm."""
        return self.setup.training.layout is None and not set(BY_STAGE).intersection(self.replaced)

    @property
    def kinds(self) -> Sequence[object]:
        """What each item is: layers that are alike are the same."""
        return [*map(id, self.items.each)]

    @property
    def layers_before(self) -> list[int]:
        """How many layers the first 0, 1, .. items are."""
        return [*accumulate((item.kind == LAYER for item in self.items.each), initial=0)]

    def at_spans(self, problem: Problem, spans: Sequence[tuple[int, int]]) -> Problem:
        """Return `problem`, on its placement, with stages of these items, which need not stand side by side."""
        other = self._ending(self.ends)
        vars(other).update(spans=spans)  # in place of what the cached property would make of `ends`
        return other.problem(problem, problem.settled_placement)

    def cut_items(self, problem: Problem) -> CutItems:
        """Return what each item of the model takes and holds at least, without what layers recompute by stage."""
        each = self.items.each
        times = {key: [Fraction(item.time(key), PER_MS) for item in each] for key in ("forward", *HALVES)}
        gradient, weight = (times[key] for key in HALVES)
        if not problem.costs.split:
            gradient = [one + other for one, other in zip(gradient, weight, strict=True)]
            weight = [Fraction(0)] * len(each)
        devices = range(problem.devices)
        links = None if problem.links is None else [hop_times(self.setup, product([here], devices)) for here in devices]
        kept = "activation" if self.setup.training.full_layers is None else "checkpoint"  # of a layer
        return CutItems(
            forward=times["forward"],
            gradient=gradient,
            weight=weight,
            pair=[Fraction(item.alone, PER_MS) for item in each] if hides_experts(self.setup) else None,
            p2p=[Fraction(0)] * (len(each) - 1),
            static=[item.states / GB for item in each],
            held=[[item.size(kept if item.kind == LAYER else "activation") / GB for item in each]],
            links=links,
        )

    def cut_at(self, problem: Problem, ends: Sequence[int]) -> Problem:
        """Return `problem`, on its placement, with stages that end before these items."""
        return self._ending(ends).problem(problem, problem.settled_placement)

    def _ending(self, ends: Sequence[int]) -> SetupCutter:
        """Return the cutter of the same items, with stages that end before these."""
        other = replace(self, ends=tuple(ends))
        vars(other).update(items=self.items, items_of_microbatches=self.items_of_microbatches)  # are not made again
        return other

    @property
    def layers_of_stages(self) -> tuple[int, ...]:
        return tuple(stage.count(LAYER) for stage in self.stages)

    def facts(self) -> Mapping[str, Any]:
        """Return what handover/ tells trainers: ranks of ways of parallelism, sizes, and True for each choice made."""
        setup = self.setup
        model, parallel, batch, training = setup.model, setup.parallel, setup.batch, setup.training
        group = setup.shard_group()
        mixture, spreads = model.experts, parallel.expert > 1
        is_apart = mixture is not None and parallel.expert_tensor != parallel.tensor
        of_experts = {} if mixture is None else {
            "experts": mixture.count, "active": mixture.active, "width": mixture.width, "shared": mixture.shared,
            "dense_layers": mixture.dense_layers, "expert_layers": model.layers - mixture.dense_layers,
            f"dispatcher {training.dispatcher or DEEPEP}": spreads,
            "backend": "hybridep" if setup.hardware.nvlink_gpus else DEEPEP,  # trainers refuse DeepEP on racks
        }  # fmt: skip
        return {
            **vars(training), **vars(batch), **of_experts, "context": 0,
            "channels": model.head if model.latent is None and model.query != model.hidden else 0, "mtp": model.mtp,
            **{key: getattr(model, key) for key in ("layers", "hidden", "ffn", "heads", "kv_heads")},
            **{way: ranks for way, ranks in vars(parallel).items() if ranks is not None and ranks > 1},
            "shard_ranks": group.ranks if training.shard else 0, "replicas": group.replicas if training.shard else 0,
            "expert_tensor": parallel.expert_tensor * is_apart, "gpus": parallel.gpus, "data": parallel.data,
            "expert_ranks": setup.shard_group(experts=True).ranks, "is_split": parallel.spread > 1,
            "is_whole": parallel.spread < parallel.tensor, training.precision: True,
            f"{training.precision} weights": setup.recipe and training.distributed_optimizer,
            **({"bf16": True, "low": True} if setup.recipe else {}),
            "gathers": parallel.context > 1 and training.context == GATHERED,
            "tokens": batch.micro * batch.sequence, f"{training.gradients} gradients": True,
            f"optimizer {training.optimizer}": training.optimizer != ADAM,
            f"{training.recompute}{training.full_layers or ''}": True,
            "stages": stages_of(self.ends, model.layers, model.mtp), "letters": model.letters,
        }  # fmt: skip

    def require_recompute(self) -> None:
        """Raise NotApplicable where full recompute is part of the backward already."""
        if self.setup.training.recompute != NONE:
            what = f"`training.recompute` is {self.setup.training.recompute}, so backwards recompute already"
            way_out = "set it to none for recompute as an operation of the schedule"
            raise NotApplicable(f"{what}: {way_out}", "recompute")

    def cut(self, problem: Problem, placement: Placement) -> Problem:
        """Return `problem` with the stages of a placement: as the setup gives them, of equal counts, or balanced."""
        stages, most, parallel, mine = len(placement.devices), items_of(self.setup.model), self.setup.parallel, self
        if stages > most:
            what = f"{stages} stages need as many layers; the model has {most}, its embedding and its head included"
            raise NotApplicable(what, "layers")
        if parallel.chunks != stages // problem.devices and self.setup.training.layout in (None, *WORDS):
            setup = replace(self.setup, parallel=replace(parallel, chunks=stages // problem.devices))
            mine = replace(self, setup=setup)  # of a setup with so many stages a device, whose messages are as many
        return mine._ending(mine._ends(problem, placement)).problem(problem, placement)

    def _ends(self, problem: Problem, placement: Placement) -> tuple[int, ...]:
        """Return where stages end: as given, with equal counts, or the balanced cut of what items take and hold."""
        given, stages = self.setup.training.layout, len(placement.devices)
        if given == EQUAL:
            given = equal_layout(self.setup.model.layers, [int(0 < stage < stages - 1) for stage in range(stages)])
        if given is not None and given != BALANCED:
            listed, parallel = read_layout(self.setup, given), self.setup.parallel
            if len(listed) != parallel.stages:
                due = f"pipeline x chunks = {parallel.pipeline} x {parallel.chunks} are {parallel.stages}"
                raise ConfigError(f"is for {len(listed)} stages; {due}", "training.layout")
            if stages != len(listed):
                what = f"`training.layout` is for {len(listed)} stages, not {stages}"
                raise NotApplicable(f"{what}; with `layout` balanced layers are cut anew", "stages")
            return tuple(accumulate(one.items for one in listed))
        known = dict[object, LayerCosts]()  # what kinds take, of the mean microbatch, and hold of the largest one
        for kind, number in {kind: number for number, kind in enumerate(self.kinds)}.items():
            each = [Stage(items, number, number + 1) for items in self.items_of_microbatches or [self.items]]
            work, fixed = Fraction(sum(one.work for one in each), len(each)), each[0].states + each[0].size("logits")
            kept = max(one.size("activation") for one in {*each})
            known[kind] = LayerCosts(forward=work, activation=kept / GB, static=fixed / GB)
        first, *inside, last = map(known.__getitem__, self.kinds)
        columns: dict[str, Any] = {key: [getattr(one, key) for one in inside] for key in MEASURED}
        layout = equal_layout(len(inside), least_counts(stages, first, last))
        layers, speeds = Layers(LayerCosts(**columns), first, last, layout), speeds_of(problem)
        found = balanced_layout(layers, placement, problem.microbatches, problem.memory, speeds)
        *ends, end = accumulate(found, initial=1)
        return (*ends[1:], end + 1)

    def problem(self, given: Problem, placement: Placement) -> Problem:
        """Return the problem of these stages, with the budget of `given`. Raises NotApplicable for other counts."""
        latency = {} if given.links is None else {"p2p": 0}  # the links are instead of the network that is derived
        derived = self._costs(placement)
        values = {**derived, **latency, **self.replaced}
        values["shard"] = with_keys(derived.get("shard"), self.replaced.get("shard"))
        values.pop("placement", None)
        if values.get("slices") not in (None, 1):
            values["slices"] = sliced(values["slices"], self.stages, self.items_of_microbatches or [self.items])
            values["overlap"] = self.replaced.get("overlap")
            for key in WHOLE_ONLY:
                values[key] = self.replaced.get(key)
        budget = given.memory.budget  # exact: a number of many digits was not written by a user
        values["budget"] = None if budget is None else [to_fraction(limit) for limit in budget]
        values |= {key: getattr(given, key) for key in ("devices", "microbatches", "name", "lanes", "speed", "links")}
        try:
            made = make_problem(**values, stages=len(self.ends), placement=placement, time_unit="ms", unit="GB")
        except ConfigError as error:
            raise NotApplicable(error.message, error.key, entry=error.entry) from None
        resolution = PER_MS  # the same ticks for every cut: what they take is compared
        if given.speed is not None:  # times on devices of these speeds are whole
            times = (item.time(key) for item in self.items.each for key in OPERATIONS)
            least = Fraction(min(time for time in times if time)) / PER_MS / max(map(to_fraction, given.speed))
            while least * resolution < 10 ** (MOST_DIGITS - 1):
                resolution *= 10
        return replace(made, costs=replace(made.costs, resolution=resolution), cutter=self)

    def _costs(self, placement: Placement) -> dict[str, Any]:
        """Return the derived costs and memory, by the parameters of make_problem."""
        stages, replaced, hardware = self.stages, self.replaced, self.setup.hardware
        columns = [*map(self._stages_of, self.items_of_microbatches)] or [stages]
        setups = self.setup.of_microbatches or [self.setup]
        keys = ("forward", *(() if "backward" in replaced else HALVES), "recompute")
        held = [[stage.size("activation") for stage in column] for column in columns]
        activations = [stage.size("activation") for stage in stages]
        partners = [stages[partner(stages, placement, n)] for n in range(len(stages))] if self.hides_experts else []
        sent = copies_sent(stages)
        to_host = hardware.pcie * hardware.efficiency.network  # GB/s
        return {
            **{
                key: _table([[Fraction(stage.time(key), PER_MS) for stage in column] for column in columns])
                for key in keys
            },
            "overlap": [Fraction(pair_time(*pair), PER_MS) for pair in zip(stages, partners, strict=False)] or None,
            "p2p": _table([hop_times(one, pairwise(placement.devices), sent) for one in setups]),
            "offload": _table(
                [[Fraction(round(float(size) / to_host / 1e3), PER_MS) for size in column] for column in held]
            ),
            "activation": _table([[size / GB for size in column] for column in held]),
            "checkpoint": [
                min(stage.size("checkpoint") / size, Fraction(1)) if size else Fraction(1)
                for stage, size in zip(stages, activations, strict=True)
            ],
            "static": [(stage.states + stage.size("logits")) / GB for stage in stages],
            **step_values(self.setup, stages, placement, trains=replaced.get("mode") != FORWARD_ONLY),
        }

    def _stages_of(self, items: Items) -> tuple[Stage, ...]:
        return tuple(Stage(items, *span) for span in self.spans)

    @property
    def hides_experts(self) -> bool:
        """Whether pairs last what their pieces say: experts on several ranks, no times that are given, all alike."""
        is_alike = self.setup.batch.lengths is None
        return is_alike and hides_experts(self.setup) and PARTS.isdisjoint(self.replaced)


def _table(columns: Sequence[Sequence[Fraction]]) -> list[Any]:
    """Return the values of stages, in lists of one for each microbatch where there are several columns."""
    return [*columns[0]] if len(columns) == 1 else [list(row) for row in zip(*columns, strict=True)]


def derive(setup: Setup, given: Mapping[str, Any]) -> Problem:
    """Return the problem of a setup, where `given` is not derived; its placement is open unless given. May refuse."""
    problem = outline(setup, given)
    if problem.placement is not None:
        return problem
    return replace(recut(problem, named_placement("loop", problem.devices, problem.stages)), placement=None)


def outline(setup: Setup, given: Mapping[str, Any]) -> Problem:
    """Return the problem of a setup, without costs where an algorithm will cut the stages. Raises as `derive` does."""
    own = {key: value for key, value in given.items() if value is not None and key not in SIZES}
    values: dict[str, Any] = {"microbatches": setup.microbatches, "budget": budget_of(setup), "name": setup.name}
    values |= {key: own.pop(key) for key in BESIDE if key in own}
    devices, stages = setup.parallel.pipeline, setup.parallel.stages
    if setup.batch.lengths is not None and values["microbatches"] != setup.microbatches:
        raise ConfigError(f"`batch.lengths` list {setup.microbatches}, not {values['microbatches']}", "microbatches")
    try:
        made = make_problem(**values, devices=devices, stages=stages, time_unit="ms", unit="GB")
    except ConfigError as error:
        if error.key != "microbatches" or given.get("microbatches") is not None:
            raise
        raise ConfigError(error.message, "batch.global") from None  # whose microbatches these are
    outlined, asked = replace(made, cutter=SetupCutter(setup, own)), own.get("placement", "auto")
    if not is_several(asked) and asked == "auto":
        return outlined
    placement = read_placement(asked, devices, stages)
    assert placement is not None  # auto is none
    return recut(outlined, placement)


def side_static(given: Mapping[str, Any]) -> Fraction:
    """Return the GB that side work holds on every device, whatever their number. Raises ConfigError."""
    every = [one for one in given.get("side") or () if isinstance(one, Mapping) and one.get("devices", ALL) == ALL]
    sizes = (exact_number("side", one.get("static", 0), Unit(MEMORY, "GB")) for one in every)
    return sum(map(to_fraction, sizes), Fraction(0))


def budget_of(setup: Setup) -> Fraction:
    """Return the GB that a GPU leaves for the model. Raises ConfigError about `hardware.memory` where it has none."""
    memory = to_fraction(setup.hardware.memory) * GB
    if memory <= CONTEXT:
        least = f"more than the {CONTEXT / GB:g} GB that the context of a GPU takes"
        raise ConfigError(f"must be {least}, not {setup.hardware.memory:g}", "hardware.memory")
    return (memory - CONTEXT) / (1 + FRAGMENTATION) / GB


def memory_with(budget: Fraction) -> Fraction:
    """Return the bytes of a GPU whose memory leaves that budget, in GB: what `budget_of` takes off is added."""
    return budget * GB * (1 + FRAGMENTATION) + CONTEXT


def with_budget(setup: Setup, budget: Fraction | None) -> Setup:
    """Return a setup whose GPUs leave that budget in GB, or more by rounding; None: theirs."""
    if budget is None or budget == budget_of(setup):
        return setup
    return replace(setup, hardware=replace(setup.hardware, memory=nextafter(float(memory_with(budget) / GB), inf)))

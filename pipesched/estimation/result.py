"""An `Estimate` of a setup, as `config/estimate.py` and `tuning/` make: stages, memory, the step's time and rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from pipesched.display import Displayable
from pipesched.errors import ConfigError
from pipesched.estimation.communication import data_terms
from pipesched.estimation.derived import GATHER, OPTIMIZER, REDUCE, SetupCutter, memory_with
from pipesched.estimation.hardware import GpuModel
from pipesched.estimation.items import GB, STATES, Items, Stage
from pipesched.estimation.memory import overhead_terms
from pipesched.estimation.parameters import ParameterCounts, layer_flops, parameters, training_flops
from pipesched.estimation.setup import FULL, SELECTIVE, Setup
from pipesched.estimation.terms import Term, Terms, total
from pipesched.estimation.times import optimizer_terms
from pipesched.estimation.trust.evidence import SpeedRatio, Trust
from pipesched.pipeline.layers.layout_text import StageItems, layout_text, stages_of
from pipesched.pipeline.plan.metrics import NETWORK, PARTS, SIDE
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.problem.costs import STATIC_PARTS, STEP_TIMES, Entry, in_one
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import in_units, to_fraction
from pipesched.results.outcome import Outcome

RATES = 6  # fields of a TrainingStep before those that fall where it takes longer
BESIDE_STATES = ("activations", "unsharded", "side")  # what comes and goes


class DeviceMemory(NamedTuple):
    """What a GPU of a device of the pipeline holds at its peak, in bytes, and what it may hold: its memory.

    Weights, gradients and optimizer are what stays; what ranks divide and a schedule brings together is `unsharded`,
    `side` what side work adds: what stays of it, and what it holds of microbatches.
    Where the problem has a budget of its own, `budget` is derived from that, so that both agree on what fits.
    """

    parameters: Fraction
    weights: Fraction
    gradients: Fraction
    optimizer: Fraction
    activations: Fraction
    logits: Fraction
    fixed: Fraction  # the GPU's context, and what fragmentation takes: a share of all else
    budget: Fraction
    unsharded: Fraction = Fraction(0)
    side: Fraction = Fraction(0)

    @property
    def total(self) -> Fraction:
        return sum((getattr(self, key) for key in (*STATES, *BESIDE_STATES, "logits", "fixed")), Fraction(0))

    @property
    def fits(self) -> bool:
        return self.total <= self.budget


class TrainingStep(NamedTuple):
    """A step: times in milliseconds, rates a GPU. `mfu` counts the operations of the model, `hfu` recompute as well.

    Both are shares of the peak of products in the precision that is trained in.
    `time` is the sum of the pipeline, of the communication that nothing hides and of the optimizer.
    """

    algorithm: str
    pipeline: float
    span: float
    communication: float
    optimizer: float
    time: float
    tokens_per_second_per_gpu: float
    model_tflops_per_gpu: float
    mfu: float
    hfu: float

    @property
    def gpu_hours_per_trillion(self) -> float:
        """The GPU-hours of 10^12 tokens."""
        return 10**12 / self.tokens_per_second_per_gpu / 3600

    def taking(self, time: float) -> TrainingStep:
        """Return the step where it takes so many milliseconds, each part longer and each rate lower alike."""
        longer, numbers = time / self.time, tuple[Any, ...](self)
        times, rates = numbers[1:RATES], numbers[RATES:]
        return TrainingStep(self.algorithm, *(one * longer for one in times), *(one / longer for one in rates))


@dataclass(frozen=True, repr=False)
class Estimate(Displayable):
    """What a setup costs and holds under an algorithm: `outcome` is the schedule of a problem that was derived from it.

    `whole`: every score of attention counts in the operations of the model, as in older papers, not only those that
    causal attention needs. `notes` say what was assumed, `options` are those that the algorithm was given.
    `trust` says how sure it is, unless that was not asked for.
    """

    outcome: Outcome
    whole: bool = False
    notes: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    trust: Trust | None = None

    def __repr__(self) -> str:
        said = f"{self.step.tokens_per_second_per_gpu:.1f} tokens/s/GPU" if self.fits else "does not fit"
        return f"Estimate({self.setup.name or self.setup.model.name}, {self.step.algorithm}, {said})"

    @property
    def problem(self) -> Problem:
        """The derived problem, as it is scheduled."""
        return self.outcome.problem

    @property
    def cutter(self) -> SetupCutter:
        """What cut the model into the stages of the problem."""
        cutter = self.problem.cutter
        assert isinstance(cutter, SetupCutter)
        return cutter

    @property
    def setup(self) -> Setup:
        """The setup, with as many stages a device as the algorithm runs."""
        return self.cutter.setup

    @property
    def items(self) -> Items:
        """The items of the model."""
        return self.cutter.items

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of the pipeline."""
        return self.cutter.stages

    @property
    def layout(self) -> str:
        """What each stage holds, as Megatron-LM writes it."""
        return layout_text(self.setup.model.letters, self.stage_items)

    @property
    def stage_items(self) -> tuple[StageItems, ...]:
        """What each stage holds."""
        return stages_of(self.cutter.ends, self.setup.model.layers, self.setup.model.mtp)

    @property
    def parameters(self) -> ParameterCounts:
        """The parameters of the model, all and active."""
        return parameters(self.setup.model, self.setup.parallel.tensor)

    @property
    def sequences(self) -> int:
        """The sequences of a step over all GPUs: those of the microbatches that are scheduled."""
        return self.problem.microbatches * self.setup.batch.micro * self.setup.parallel.data

    @property
    def tokens(self) -> int:
        """The tokens of a step over all GPUs."""
        batch = self.setup.batch
        return self.sequences * batch.sequence if batch.lengths is None else self.setup.tokens_of_step

    @property
    def documents(self) -> list[tuple[int, int]]:
        """The lengths of documents, each with the tokens of a step in documents of that length, over all GPUs."""
        batch, data = self.setup.batch, self.setup.parallel.data
        if batch.lengths is None:
            return [(batch.sequence, self.tokens)]
        counts = Counter(chain.from_iterable(batch.lengths))
        return [(length, length * count * data) for length, count in sorted(counts.items())]

    def stage_time(self, number: int, operation: str) -> float:
        """Return the milliseconds of an operation of a stage in the mean of microbatches: derived, unless given."""
        return mean_entry(getattr(self.problem.costs, operation)[number])

    def stage_activation(self, number: int) -> float:
        """Return the GB that a microbatch leaves on a stage as it is scheduled: derived, unless they were given."""
        return mean_entry(self.problem.memory.activation[number])

    @property
    def flops(self) -> int:
        """The operations of the model in a step over all GPUs."""
        setup = self.setup
        model, tensor = setup.model, setup.parallel.tensor
        return sum(training_flops(model, *one, tensor, whole=self.whole) for one in self.documents)

    @property
    def flops_again(self) -> int:
        """The operations that recompute adds to a step: products and scores (full), scores (selective), else none."""
        training, model = self.setup.training, self.setup.model
        is_full = training.recompute == FULL
        layers: Iterable[int] = range(model.layers + model.mtp)
        if is_full and training.full_layers is not None:
            layers = (number - 1 for stage in self.stages for number in stage.again)  # item 0 is the embedding
        elif not is_full and (training.recompute != SELECTIVE or training.flash_attention):
            return 0
        found, kinds = 0, [(model.of(layer), model.has_experts(min(layer, model.layers))) for layer in layers]
        for length, tokens in self.documents:
            each = [layer_flops(one, length, experts=experts, whole=self.whole) for one, experts in kinds]
            found += tokens * sum(products * is_full + core for products, core in each)
        return found

    def stages_on(self, device: int) -> list[Stage]:
        """Return the stages whose weights a device holds."""
        return [self.stages[stage] for stage in self.problem.settled_placement.stages_on(device)]

    @cached_property
    def devices(self) -> tuple[DeviceMemory, ...]:
        """What each device holds at its peak."""
        return tuple(map(self._memory, range(self.problem.devices)))

    def _memory(self, device: int) -> DeviceMemory:
        """Return what a device holds at its peak; what comes and goes is that of the schedule."""
        stages, schedule, problem = self.stages_on(device), self.outcome.schedule, self.problem
        stay = (*STATES, "logits")
        sums = {key: sum((stage.size(key) for stage in stages), Fraction(0)) for key in ("parameters", *stay)}

        def size(grains: int) -> Fraction:
            return Fraction(grains, problem.grains.per_unit) * GB

        peak, activations = size(schedule.peak_grains[device]), size(schedule.peak_grains_of("activations")[device])
        without_side, side_static = peak, size(problem.side_static_grains[device])
        if problem.side:
            without_side = size(max(level for _, level in schedule.memory_steps(device, without=SIDE)))
        if self.is_static_given:  # it has no parts, and counts as weights
            sums |= {**dict.fromkeys(stay, Fraction(0)), "weights": size(problem.static_grains[device]) - side_static}
        held = sum((sums[key] for key in stay), peak + side_static)
        overhead, limits = Fraction(total(overhead_terms(held))), problem.memory.budget
        budget = to_fraction(self.setup.hardware.memory) * GB
        if limits is not None:
            budget = memory_with(to_fraction(limits[device]))
        # each is what the peak grows by: activations alone, then with gathers, then with side work
        return DeviceMemory(**sums, activations=activations, fixed=overhead, budget=budget,
                            unsharded=without_side - activations, side=peak - without_side + side_static)  # fmt: skip

    @property
    def is_static_given(self) -> bool:
        """Whether what stays on a device was given in place of what is derived."""
        return not {"static", *STATIC_PARTS}.isdisjoint(self.cutter.replaced)

    @property
    def fits(self) -> bool:
        """Whether every device has the memory."""
        return all(device.fits for device in self.devices)

    @property
    def has_step(self) -> bool:
        """Whether gathers, reductions and optimizers are operations of the schedule."""
        return self.setup.training.shard is not None or self.problem.costs.has_step

    def once(self, device: int) -> tuple[Terms, Terms]:
        """Return what a device does once a step: exposed data-parallel communication, and the optimizer.

        Where these are operations of the schedule, each gather and each reduction counts, hidden or not.
        """
        if self.has_step:
            numbers, terms = self.problem.settled_placement.stages_on(device), dict[str, Terms]()
            for key in STEP_TIMES:
                column = getattr(self.problem.costs, key)
                each = [] if column is None else [(stage, float(column[stage])) for stage in numbers]
                terms[key] = tuple(Term(f"{key} of stage {stage}", time, f"{time:.6g} ms") for stage, time in each)
            return (*terms[GATHER], *terms[REDUCE]), terms[OPTIMIZER]
        stages = self.stages_on(device)
        experts = sum((stage.size("experts") for stage in stages), Fraction(0))
        dense = sum((stage.size("parameters") for stage in stages), Fraction(0)) - experts
        low = sum((stage.size("low") for stage in stages), Fraction(0))
        return data_terms(self.setup, dense, experts, low), optimizer_terms(self.setup, dense, experts)

    @cached_property
    def step(self) -> TrainingStep:
        """The step: its times and its rates."""
        setup, schedule, step = self.setup, self.outcome.schedule, self.outcome.schedule.step
        time = schedule.makespan
        if step is None or not self.has_step:
            once = [self.once(device) for device in range(self.problem.devices)]
            communication, optimizer = (max(float(total(terms[which])) for terms in once) for which in (0, 1))
            pipeline, time = time, time + communication + optimizer
        else:
            updates = step.exposed_ticks(*PARTS) - step.exposed_ticks(*NETWORK)  # of optimizers
            optimizer = in_units(updates, self.problem.ticks.per_unit)
            pipeline, communication = step.pipeline, step.network
        gpu_seconds, peak = time / 1000 * setup.parallel.gpus, setup.peak * 1e12
        flops, all_flops = self.flops, self.flops + self.flops_again
        rates = (self.tokens / gpu_seconds, flops / gpu_seconds / 1e12)
        times = (pipeline, schedule.span, communication, optimizer, time)
        shares = (flops / gpu_seconds / peak, all_flops / gpu_seconds / peak)
        return TrainingStep(self.outcome.algorithm, *times, *rates, *shares)

    def against(self, other: Estimate) -> SpeedRatio:
        """Return the time of the step over that of another setup of the same model on as many GPUs.

        Raises ConfigError for another model or number of GPUs, and where either does not say how sure it is.
        """
        if self.trust is None or other.trust is None:
            raise ConfigError("both estimates must say how sure they are: trust=True", "against")
        return self.trust.against(other.trust)

    @property
    def expected(self) -> TrainingStep | None:
        """The step as published runs let expect it; None where how sure it is was not asked."""
        return None if self.trust is None else self.step.taking(self.trust.time.expected)


def mean_entry(entry: Entry) -> float:
    """Return an entry of a table in the mean of the microbatches."""
    values = [*map(float, in_one([entry]))]
    return sum(values) / len(values) if len(values) > 1 else values[0]


def sizes_beside(estimate: Estimate) -> tuple[str, ...]:
    """Return what comes and goes on a device, by the fields of DeviceMemory."""
    activations, unsharded, side = BESIDE_STATES
    divides = estimate.has_step or "shard" in estimate.cutter.replaced
    return (activations, *[unsharded] * divides, *[side] * bool(estimate.problem.side))


def retimed(estimate: Estimate, hardware: GpuModel) -> Estimate:
    """Return an estimate on other hardware, with its stages and its orders."""
    problem, schedule = estimate.problem, estimate.outcome.schedule
    cutter = replace(estimate.cutter, setup=replace(estimate.setup, hardware=hardware))
    other = replace(cutter.problem(problem, problem.settled_placement), placement=problem.placement)
    is_same = other.costs == problem.costs  # only what is done once a step differs
    timed = replace(schedule, problem=other) if is_same else schedule_plan(other, schedule.plan)
    return Estimate(Outcome(estimate.outcome.algorithm, timed), estimate.whole)

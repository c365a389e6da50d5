"""A derived problem as an ordinary config, with comments that say what was derived from what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipesched.estimation.derived import budget_of
from pipesched.estimation.result import Estimate
from pipesched.estimation.setup import SIZES
from pipesched.pipeline.costs import KEPT, Entry
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import plain, to_fraction
from pipesched.pipeline.step import SHARD, item_values
from pipesched.pipeline.units import FORWARD_ONLY, unit_values
from pipesched.schedulers.family import ANY
from pipesched.schedulers.registry import family
from pipesched.text.writer import ConfigText, ConfigWriter, decimal_text, flow, in_list, quoted

ONCE = {  # of a stage and step
    "gather": "its weights around the ranks that divide them",
    "reduce": "its gradients around these, and around their replicas",
    "optimizer": "what is read and written of each parameter that a rank updates",
}

GIVEN = "as given"
WIDTH = 118


def config_text(estimate: Estimate) -> ConfigText:
    """Return a config of the problem of an estimate, in ms and GB."""
    config = ConfigWriter(WIDTH)
    _write_heading(config, estimate)
    _write_pipeline(config, estimate)
    entries = _Entries(config, estimate.cutter.replaced)
    config.gap()
    with config.section("costs"):
        _write_costs(entries, estimate)
    config.gap()
    with config.section("memory"):
        config.put("unit", "GB")
        _write_memory(entries, estimate)
    _write_rest(config, estimate.problem)
    return config.text


def _write_heading(config: ConfigWriter, estimate: Estimate) -> None:
    setup, parallel = estimate.setup, estimate.setup.parallel
    shown = [key for key in (*SIZES, "data") if key != "expert_tensor" or parallel.expert_tensor > 1]
    ways, batch = ", ".join(f"{key} {getattr(parallel, key)}" for key in shown), setup.batch
    tokens = f"{batch.micro} x {batch.sequence} tokens"
    if batch.lengths is not None:
        tokens = f"{min(batch.totals)} to {batch.sequence} tokens in packed documents"
    config.remark(
        f"Costs and memory of {setup.model.name} on {parallel.gpus} {setup.hardware.name}, estimated by pipesched.",
        f"{ways}; microbatches of {tokens}.",
        f"Stages, as Megatron-LM writes them: {estimate.layout}",
        *estimate.notes,
    )
    config.gap()


def _write_pipeline(config: ConfigWriter, estimate: Estimate) -> None:
    problem, algorithm = estimate.problem, estimate.outcome.algorithm
    config.put("name", quoted(problem.name or estimate.setup.model.name))
    config.put("devices", problem.devices)
    config.put("stages", problem.stages)
    config.put("microbatches", problem.microbatches, f"of a step of {estimate.sequences} sequences")
    placement = problem.settled_placement
    if len(placement.ways) > 1 or family(algorithm).placement == ANY:
        config.put("placement", f"{placement.written}")
    options = ", ".join(f"{key}: {flow(value)}" for key, value in estimate.options.items() if value is not None)
    config.put("algorithm", f"{{{algorithm}: {{{options}}}}}" if options else algorithm)
    config.put("time_unit", "ms")
    if problem.lanes != "device":
        config.put("lanes", problem.lanes)
    if problem.speed is not None:
        config.numbers("speed", problem.speed, "of each device", listed=True)
    if problem.links is not None:
        rows = (in_list(decimal_text(to_fraction(latency)) for latency in row) for row in problem.links)
        config.put("links", in_list(rows))


def _write_costs(entries: _Entries, estimate: Estimate) -> None:
    costs = estimate.problem.costs
    entries.put("forward", costs.forward, "products, attention, elementwise work, exposed communication, kernels")
    is_trained = estimate.problem.mode != FORWARD_ONLY
    has_wholes = is_trained and estimate.problem.slices.count == 1  # slices have no recompute, pairs and transfers
    if is_trained and costs.split:
        entries.put("backward_input", costs.backward_input, "the same of the input gradient")
        entries.put("backward_weight", costs.backward_weight, "products of the weight gradient")
    elif is_trained:
        halves = zip(costs.backward_input, costs.backward_weight, strict=True)
        entries.put("backward", [to_fraction(one) + to_fraction(other) for one, other in halves])
    if has_wholes:
        entries.put("recompute", costs.recompute, "a forward again")
        if costs.overlap is not None:
            entries.put("overlap", costs.overlap, "a pair F&B, network of experts beside compute")
    entries.put("p2p", costs.p2p or (0,), "a microbatch's activations on their way to the next stage")
    if has_wholes and costs.offload is not None:
        entries.put("offload", costs.offload, f"an activation over PCIe at {estimate.setup.hardware.pcie:g} GB/s")
    if has_wholes and costs.reload is not None and costs.reload != costs.offload:
        entries.put("reload", costs.reload)
    for key, remark in ONCE.items():
        if getattr(costs, key) is not None:
            entries.put(key, getattr(costs, key), remark)
    if costs.tied is not None:
        entries.put("tied", (costs.tied,), "the gradients of a vocabulary at both ends, as a message")


def _write_memory(entries: _Entries, estimate: Estimate) -> None:
    setup, memory = estimate.setup, estimate.problem.memory
    entries.put("activation", memory.activation, "what a microbatch leaves from forward to backward")
    if any(share != 1 for share in memory.retain):
        entries.put("retain", memory.retain)
    entries.put("checkpoint", memory.checkpoint, "the inputs of layers, as a part of that")
    has_parts = any(any(getattr(memory, key)) for key in KEPT)
    what = "weights, gradients, optimizer, and logits at the last stage"
    entries.put("static", memory.static, what if not has_parts else "logits at the last stage")
    for key in KEPT if has_parts else ():
        entries.put(key, getattr(memory, key), "of a stage, whole")
    if memory.kv:
        entries.put("kv", (memory.kv,))
    if memory.budget is not None:
        is_own = {*memory.budget} == {budget_of(setup)}
        text = f"of {setup.hardware.memory:g} GB, less the GPU's context and 4 % that fragments"
        entries.put("budget", memory.budget, text if is_own else GIVEN)


def _write_rest(config: ConfigWriter, problem: Problem) -> None:
    """Write what makes microbatches differ, and what a step has beside costs and memory."""
    values: dict[str, object] = {**unit_values(problem.sizes, problem.slices, problem.mode)}
    if problem.shard is not None:
        without = "ahead" if problem.shard.gathers_each else "gather"  # one has no effect beside the other
        values["shard"] = {key: getattr(problem.shard, key) for key in SHARD if key != without}
    if problem.clip:
        values["step"] = {"clip": problem.clip}
    if problem.side:
        values["side"] = [item_values(item, plain) for item in problem.side]
    if values:
        config.gap()
    for key, value in values.items():
        config.put(key, flow(value))


@dataclass(frozen=True)
class _Entries:
    """Writes entries of costs and memory, of which the `replaced` ones are not derived."""

    config: ConfigWriter
    replaced: Mapping[str, object]

    def put(self, key: str, values: Sequence[Entry], remark: str = GIVEN) -> None:
        """Write a key with its numbers, one for all where they are equal, and a comment above it."""
        self.config.remark(GIVEN if key in self.replaced else remark)
        self.config.numbers(key, values)

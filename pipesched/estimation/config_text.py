"""`config_text`: a derived problem as an ordinary config, with comments that say what was derived from what."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipesched.estimation.derived import budget_of
from pipesched.estimation.result import Estimate
from pipesched.estimation.setup import SIZES
from pipesched.pipeline.plan.step import SHARD, item_values
from pipesched.pipeline.problem.costs import STATIC_PARTS, Entry
from pipesched.pipeline.problem.quantities import plain, to_fraction
from pipesched.pipeline.problem.units import FORWARD_ONLY, unit_values
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
    config, setup, parallel = ConfigWriter(WIDTH), estimate.setup, estimate.setup.parallel
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
    _write_pipeline(config, estimate)

    def put(key: str, values: Sequence[Entry], remark: str = GIVEN) -> None:  # what is `replaced` is not derived
        config.remark(GIVEN if key in estimate.cutter.replaced else remark)
        config.numbers(key, values)

    config.gap()
    with config.section("costs"):
        _write_costs(put, estimate)
    config.gap()
    with config.section("memory"):
        config.put("unit", "GB")
        _write_memory(put, estimate)
    problem = estimate.problem
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
    return config.text


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
    if problem.speed is not None:
        config.numbers("speed", problem.speed, "of each device", listed=True)
    if problem.links is not None:
        rows = (in_list(decimal_text(to_fraction(latency)) for latency in row) for row in problem.links)
        config.put("links", in_list(rows))


def _write_costs(put: Callable[..., None], estimate: Estimate) -> None:
    costs = estimate.problem.costs
    put("forward", costs.forward, "products, attention, elementwise work, exposed communication, kernels")
    is_trained = estimate.problem.mode != FORWARD_ONLY
    has_wholes = is_trained and estimate.problem.slices.count == 1  # slices have no recompute, pairs and transfers
    if is_trained and costs.split:
        put("backward_input", costs.backward_input, "the same of the input gradient")
        put("backward_weight", costs.backward_weight, "products of the weight gradient")
    elif is_trained:
        halves = zip(costs.backward_input, costs.backward_weight, strict=True)
        put("backward", [to_fraction(one) + to_fraction(other) for one, other in halves])
    if has_wholes:
        put("recompute", costs.recompute, "a forward again")
        if costs.overlap is not None:
            put("overlap", costs.overlap, "a pair F&B, network of experts beside compute")
    put("p2p", costs.p2p or (0,), "a microbatch's activations on their way to the next stage")
    if has_wholes and costs.offload is not None:
        put("offload", costs.offload, f"an activation over PCIe at {estimate.setup.hardware.pcie:g} GB/s")
    if has_wholes and costs.reload is not None and costs.reload != costs.offload:
        put("reload", costs.reload)
    for key, remark in ONCE.items():
        if getattr(costs, key) is not None:
            put(key, getattr(costs, key), remark)
    if costs.tied is not None:
        put("tied", (costs.tied,), "the gradients of a vocabulary at both ends, as a message")


def _write_memory(put: Callable[..., None], estimate: Estimate) -> None:
    setup, memory = estimate.setup, estimate.problem.memory
    put("activation", memory.activation, "what a microbatch leaves from forward to backward")
    if any(share != 1 for share in memory.retain):
        put("retain", memory.retain)
    put("checkpoint", memory.checkpoint, "the inputs of layers, as a part of that")
    has_parts = any(any(getattr(memory, key)) for key in STATIC_PARTS)
    what = "weights, gradients, optimizer, and logits at the last stage"
    put("static", memory.static, what if not has_parts else "logits at the last stage")
    for key in STATIC_PARTS if has_parts else ():
        put(key, getattr(memory, key), "of a stage, whole")
    if memory.kv:
        put("kv", (memory.kv,))
    if memory.budget is not None:
        is_own = {*memory.budget} == {budget_of(setup)}
        text = f"of {setup.hardware.memory:g} GB, less the GPU's context and 4 % that fragments"
        put("budget", memory.budget, text if is_own else GIVEN)

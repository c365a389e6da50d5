"""The types of `make_problem`. scripts/stubs.py writes this file from the declarations of keys."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesched.pipeline.plan.step import Messages, Shard, SideItem
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import Number

def make_problem(
    *,
    name: str = "",
    devices: Number,
    stages: Number | None = None,
    chunks: Number | None = None,
    microbatches: Number | None = None,
    sizes: Mapping[str, Any] | None = None,
    slices: Number | str | Mapping[str, Any] = 1,
    mode: str = "train",
    rounds: Number = 1,
    placement: str | Sequence[Number] | Sequence[Sequence[Number]] | Placement | None = "auto",
    time_unit: str = "",
    lanes: str = "device",
    layers: Number | None = None,
    layer: Mapping[str, Any] | None = None,
    first: Mapping[str, Any] | None = None,
    last: Mapping[str, Any] | None = None,
    mtp: Mapping[str, Any] | None = None,
    layout: str | Sequence[Number] | None = None,
    speed: Number | Sequence[Number] | Mapping[int, Number] | None = None,
    links: Sequence[Sequence[Number]] | Mapping[str, Any] | None = None,
    forward: Number | Sequence[Number | Sequence[Number]] | None = None,
    backward: Number | Sequence[Number | Sequence[Number]] | None = None,
    backward_input: Number | Sequence[Number | Sequence[Number]] | None = None,
    backward_weight: Number | Sequence[Number | Sequence[Number]] | None = None,
    recompute: Number | Sequence[Number | Sequence[Number]] | None = None,
    overlap: Number | Sequence[Number] | None = None,
    p2p: Number | Sequence[Number | Sequence[Number]] = 0,
    offload: Number | Sequence[Number | Sequence[Number]] | None = None,
    reload: Number | Sequence[Number | Sequence[Number]] | None = None,
    gather: Number | Sequence[Number] | None = None,
    reduce: Number | Sequence[Number] | None = None,
    optimizer: Number | Sequence[Number] | None = None,
    tied: Number | None = None,
    unit: str = "microbatch",
    activation: Number | Sequence[Number | Sequence[Number]] | None = None,
    retain: Number | Sequence[Number] = 1,
    checkpoint: Number | Sequence[Number] = 0,
    kv: Number = 0,
    receive: Number = 0,
    static: Number | Sequence[Number] | None = None,
    weights: Number | Sequence[Number] | None = None,
    gradients: Number | Sequence[Number] | None = None,
    states: Number | Sequence[Number] | None = None,
    budget: Number | Sequence[Number] | None = None,
    messages: Mapping[str, Any] | str | Messages | None = None,
    shard: Mapping[str, Any] | str | Shard | None = None,
    clip: bool | None = None,
    side: Sequence[Mapping[str, Any]] | Sequence[SideItem] | None = None,
) -> Problem:
    """Build a problem, every default filled in.

    >>> make_problem(devices=4, microbatches=8, forward=[1, 1, 2, 1]).costs.stages
    4

    Numbers may be int, float, Decimal, Fraction, the text of a number, or numpy's; of decimals 9 digits count, rounded
    half up. Where microbatches differ, an entry of a cost or of `activation` may list one for each microbatch, M in
    all. Times are in the user's time unit, memory in the user's memory unit. Texts may name another, as "250us" and
    "80GB" do, beside `time_unit` or `unit`: ns, us, ms, s; B, kB, MB, GB, TB, KiB, MiB, GiB, TiB.

    Args:
        name: A title for charts and tables.
        devices: P, the pipeline ranks.
        stages: S, the contiguous parts of the model; default: one a device (two without a config).
        chunks: V, stages a device, instead of stages.
        microbatches: M; default as many as lists of one a microbatch have, else 2P.
        sizes: Factors of each microbatch, lists of M numbers: work (of the times of F, B, I, W and R), activation (of
            its memory, and of O and L), message (of p2p and links); default all 1.
        slices: Into how many parts each microbatch is cut along its sequence, or auto; or a mapping of count, tokens,
            attention, work, overhead and most.
        mode: Train (default), or forward: forward passes alone.
        rounds: Beside mode forward: how often each of the M microbatches goes through the stages; its next round waits
            for the last stage.
        placement: Auto (the algorithm's own), linear, loop, v, wave, bidirectional, or the device of each stage, or two
            lists.
        time_unit: A label for times, for instance ms; beside it values may be 250us.
        lanes: Transfer lanes: each device has its own two.
        layers: Of the model; cut into the stages, whose costs then follow from `layer`; default: as many as its lists
            have.
        layer: Costs of a layer: forward, backward (or its halves, or all three), recompute, overlap, offload, reload,
            gather, reduce, optimizer, activation, static, weights, gradients, states, retain, checkpoint; a number, or
            a list with one for each.
        first: What the first stage has beside its layers (the embedding), by the keys of `layer`.
        last: What the last stage has beside its layers (the head, the loss), by the keys of `layer`.
        mtp: What a layer of multi-token prediction costs, m in `layout`, by the keys of `layer`.
        layout: Of the layers: best (default), balanced, equal, the layers of each stage, or Megatron-LM's text, as
            Et*2|t*2L; without layers it cuts the stages.
        speed: What each device divides the costs of operations by: one each, or by device, {2: 0.8}; default 1.
        links: Latency from device to device, beside that of the boundary: {size: 4, inside: 0.05, between: 0.4} for
            groups of devices in a row, `groups` for others, or a list for each device.
        forward: Time of a forward; default 1 (5 without a config); an entry may list one a microbatch, as that of any
            cost.
        backward: Time of a full backward; default twice forward (10 without a config).
        backward_input: Its half for the input gradient.
        backward_weight: Its half for the weight gradient.
        recompute: Time to run a forward again; default forward.
        overlap: Time of an overlapped pair F&B; default: the sum of its parts.
        p2p: Latency of an edge between two devices, or one a boundary between stages or layers; default 0.
        offload: Time to offload one activation.
        reload: Time to load it back; default offload.
        gather: Time to bring the weights of a stage together, over the network.
        reduce: Time to add up the gradients of a stage among data-parallel ranks.
        optimizer: Time of the optimizer's update of a stage, on its device.
        tied: Time in which first and last stage add up gradients that they share: one number.
        unit: A label for memory, for instance GB; default microbatch; values may have units of their own, 500MB.
        activation: Of one stage and microbatch; default P/S.
        retain: Held from the end of I to the end of W, in activations; default 1.
        checkpoint: Fraction that a recomputed microbatch keeps; default 0.
        kv: Keys and values as a part of the activation: slices hold their gradients, forwards alone them; default 0.
        receive: Buffer of a message between stages, from its RECV to the end of what needs it, where they queue;
            default 0.
        static: Weights, gradients, optimizer, per stage; default 0.
        weights: Weights of a stage, whole; default 0.
        gradients: Gradients of a stage, whole; default 0.
        states: States of the optimizer of a stage, whole; default 0.
        budget: Limit of activations and static memory; absent: none, or with `model` what the GPU leaves.
        messages: Which messages between devices go one after another: none (free, default), those of an edge, pair or
            rank, or those of a device among its computations; or a mapping of queue and order.
        shard: What data-parallel ranks divide: none, optimizer (its states; default beside costs.gather), gradients too
            or weights too; or a mapping of level, ranks, ahead and reduce.
        clip: Whether each optimizer waits for the gradients of all stages, to clip their norm.
        side: Work beside the pipeline for each microbatch, a list of mappings: name, forward, backward (times, or lists
            of one a microbatch), into (a stage), devices (all, or a list), p2p, activation, output, static.

    Raises:
        ConfigError: For a bad value; its `key` is the parameter.
        TypeError: For an unknown parameter, and without `devices`.
    """

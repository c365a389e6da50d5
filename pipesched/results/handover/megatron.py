"""Megatron-LM's command line (megatron-core 0.19.2: megatron/training/arguments.py and the configs that it reads)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipesched.pipeline.costs import in_one
from pipesched.pipeline.layout_text import layout_text
from pipesched.pipeline.problem import typical
from pipesched.pipeline.quantities import plain
from pipesched.results.handover.subject import GROUPED, OVERLAPPED, Answer, HandoverText, Refusal, Subject

NAME = "Megatron-LM"
HAS = ("1f1b", GROUPED, OVERLAPPED)
OVERLAP = "--overlap-moe-expert-parallel-comm"
CONDITIONS = (
    f"{OVERLAP} asks for expert-model-parallel-size > 1, dispatcher alltoall or flex, bf16 or fp16, at most 1 MTP"
    " layer, no full recompute and no --moe-shared-expert-overlap"
)
OPTIONS = {  # of a model
    "tensor": "--tensor-model-parallel-size {tensor}", "context": "--context-parallel-size {context}",
    "gathers": "--cp-comm-type all_gather",
    "expert": "--expert-model-parallel-size {expert}", "expert_tensor": "--expert-tensor-parallel-size {expert_tensor}",
    "experts": "--num-experts {experts} --moe-router-topk {active} --moe-ffn-hidden-size {width}",
    "shared": "--moe-shared-expert-intermediate-size {shared}",
    "dense_layers": "--moe-layer-freq '([0]*{dense_layers}+[1]*{expert_layers})'",
    "dispatcher deepep": "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend {backend}",
    "dispatcher alltoall": "--moe-token-dispatcher-type alltoall",
    "dispatcher allgather": "--moe-token-dispatcher-type allgather",
    "micro": "--micro-batch-size {micro}", "size": "--global-batch-size {size}", "sequence": "--seq-length {sequence}",
    "is_split": "--sequence-parallel", "selective": "--recompute-activations", "bf16": "--bf16", "fp16": "--fp16",
    "fp8": "--fp8-format hybrid --fp8-recipe tensorwise", "fp8 weights": "--fp8-param-gather",
    "fp8-blockwise": "--fp8-format e4m3 --fp8-recipe blockwise", "mxfp8": "--fp8-format e4m3 --fp8-recipe mxfp8",
    "mxfp8 weights": "--fp8-param-gather --reuse-grad-buf-for-mxfp8-param-ag",
    "nvfp4": "--fp4-format e2m1 --fp4-recipe nvfp4", "nvfp4 weights": "--fp4-param-gather",
    "full": "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
    "full_layers": "--recompute-granularity full --recompute-method block --recompute-num-layers {full_layers}",
    "distributed_optimizer": "--use-distributed-optimizer", "bf16 gradients": "--grad-reduce-in-bf16",
    "overlapped": "--overlap-grad-reduce --overlap-param-gather", "optimizer sgd": "--optimizer sgd",
    "optimizer adam-bf16": "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
}  # fmt: skip
OPTIMIZERS = {
    "optimizer muon": "Muon: --optimizer muon, or dist_muon where ranks divide its states, as your version has it"
}
SHARD = {key: OPTIONS[key] for key in ("distributed_optimizer", "overlapped")}
GROUPS = {"instances": "groups of {ranks} ranks divide them: --num-distributed-optimizer-instances {replicas}"}
DATA = {"data": "{microbatches} microbatches a step; the data-parallel size, {data}, follows from the {gpus} GPUs"}
MODEL = {
    "hidden": "the model's own options are yours to give: --num-layers {layers} --hidden-size {hidden}"
    " --ffn-hidden-size {ffn} --num-attention-heads {heads} --num-query-groups {kv_heads}",
    "channels": "--kv-channels {channels}", "mtp": "--mtp-num-layers {mtp}",
}  # fmt: skip
MTP_PATTERN = "the pattern of an MTP layer is yours to give, behind the layers: /*E, once for each"
SAVING = "recompute and offload by layer or module (--recompute-*, --fine-grained-activation-offloading)"


def answer(subject: Subject) -> Answer:
    """Return the flags of 1F1B, or of the interleaved schedule, with experts' messages beside compute or without."""
    if subject.family not in HAS:
        has = f"{NAME} has 1F1B and the interleaved schedule by flags"
        return Refusal(f"{subject.described} takes code", has)
    overlaps, known = subject.family == OVERLAPPED, subject.known
    pattern, stages = known.get("letters", ""), subject.layers or ()
    if overlaps and (lacking := _lacks_for_overlap(known)):
        return Refusal(f"{NAME} overlaps messages of experts by {OVERLAP}, which {lacking}")
    if wrong := wrong_group(subject):
        return Refusal(wrong)
    flags = [pipeline_flag(subject)]
    if subject.layers is not None:  # in a layout stage k is on rank k mod P
        flag = "--hybrid-layer-pattern" if pattern else "--pipeline-model-parallel-layout"
        flags.append(f"{flag} '{layout_text(pattern, subject.layers)}'")
    elif subject.chunks > 1:
        flags.append(f"--num-virtual-stages-per-pipeline-rank {subject.chunks}")
    if subject.chunks > 1 and subject.group_size != subject.devices:
        flags.append(f"--microbatch-group-size-per-virtual-pipeline-stage {subject.group_size}")
    flags += [*[OVERLAP] * overlaps, *subject.told(OPTIONS)]
    remarks = [microbatch_remark(subject), *_differences(subject)][:2] + [CONDITIONS] * (overlaps and not known)
    losses, holders = sum(stage.head for stage in stages), sum(stage.mtp > 0 for stage in stages)
    later = [f"{losses} losses (L)"] * (losses > 1) + [f"MTP layers on {holders} stages"] * (holders > 1)
    remarks += [f"megatron-core 0.19.2 takes no {' and no '.join(later)}: a later one is needed"] * bool(later)
    remarks += [MTP_PATTERN] * bool(pattern and known["mtp"])
    sharding = [*subject.told(OPTIMIZERS), *subject.told(GROUPS), *subject.told_of_shard(SHARD)]
    own = [" ".join([*subject.told(MODEL), ".."])] if known else []
    return HandoverText([" ".join(flags)], [*remarks, *sharding, *own])


def _lacks_for_overlap(known: Mapping[str, Any]) -> str:
    """Return what a model's setup lacks for the overlap of experts' messages; "" for nothing."""
    if not known:
        return ""
    checks = {
        "needs experts on several ranks: `parallel.expert` 2 or more": known.get("expert", 1) == 1,
        "refuses the dispatcher allgather: `training.dispatcher` alltoall or deepep": known.get("dispatcher allgather"),
        "refuses full recompute: `training.recompute` none or selective": known["recompute"] == "full",
        "needs bf16 or fp16: `training.precision`": not (known.get("bf16") or known.get("fp16")),
        "takes at most one MTP layer": known["mtp"] > 1,
    }
    return next((text for text, is_lacking in checks.items() if is_lacking), "")


def _differences(subject: Subject) -> Iterator[str]:
    """Yield in what stages differ whose layers are not known."""
    mean = typical(subject.problem).costs
    for name, costs in (("forward", mean.forward), ("backward", mean.backward)):
        times = {*in_one(costs)}
        if subject.layers is None and len(times) > 1:
            least, most = plain(min(times)), plain(max(times))
            yield f"the stages differ ({name} {least} to {most}): give --layers, else Megatron cuts evenly"


def pipeline_flag(subject: Subject) -> str:
    """Return the number of ranks."""
    return f"--pipeline-model-parallel-size {subject.devices}"


def wrong_group(subject: Subject) -> str:
    """Say why Megatron refuses the group of an interleaved schedule; "" where it does not."""
    if subject.chunks == 1:
        return ""
    group, devices, microbatches = subject.group_size, subject.devices, subject.microbatches
    if devices == 1:
        return f"{NAME} interleaves stages of two devices or more; on one device it has one stage"
    if microbatches < devices:
        return f"{NAME} interleaves at least P microbatches, {devices}; this has {microbatches}"
    sizes = [size for size in range(devices, microbatches + 1) if not 0 < microbatches % size < devices]
    other = f"; it takes `group_size` {min(sizes, key=lambda size: abs(size - group))}"
    if not devices <= group <= microbatches:
        return f"{NAME} takes groups of {devices} (P) to {microbatches} (M) microbatches; this has {group}{other}"
    rest = microbatches % group
    if 0 < rest < devices:
        what = f"{NAME} refuses {microbatches} microbatches in groups of {group}: the last has {rest}, fewer than P"
        return f"{what}{other}"
    return ""


def microbatch_remark(subject: Subject) -> str:
    """Return which batch makes the number of microbatches."""
    count = subject.microbatches
    usual = f"{count} microbatches a step: --global-batch-size is {count} x --micro-batch-size x data-parallel size"
    return "".join(subject.told(DATA)) or usual

"""Megatron-LM's command line (github.com/NVIDIA/Megatron-LM, d98e8a6: megatron/training/arguments.py)."""

from __future__ import annotations

from collections.abc import Iterator

from pipesched.pipeline.costs import in_one
from pipesched.pipeline.feeding import typical
from pipesched.pipeline.quantities import plain
from pipesched.results.handover.subject import GROUPED, Answer, HandoverText, Refusal, Subject, megatron_text

NAME = "Megatron-LM"
HAS = ("1f1b", GROUPED)
OPTIONS = {  # of a model
    "tensor": "--tensor-model-parallel-size {tensor}", "context": "--context-parallel-size {context}",
    "gathers": "--cp-comm-type all_gather",
    "expert": "--expert-model-parallel-size {expert}", "expert_tensor": "--expert-tensor-parallel-size {expert_tensor}",
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
    " --ffn-hidden-size {ffn} --num-attention-heads {heads} --num-query-groups {kv_heads} .."
}
SAVING = "recompute and offload by layer or module (--recompute-*, --fine-grained-activation-offloading)"


def answer(subject: Subject) -> Answer:
    """Return the flags of 1F1B, or of the interleaved schedule."""
    if subject.family not in HAS:
        return Refusal(f"{subject.described} takes code", f"{NAME} has 1F1B and the interleaved schedule by flags")
    if wrong := wrong_group(subject):
        return Refusal(wrong)
    flags = [pipeline_flag(subject)]
    if subject.layers is not None:  # in a layout stage k is on rank k mod P
        flags.append(f"--pipeline-model-parallel-layout '{megatron_text(subject.layers)}'")
    elif subject.chunks > 1:
        flags.append(f"--num-virtual-stages-per-pipeline-rank {subject.chunks}")
    if subject.chunks > 1 and subject.group_size != subject.devices:
        flags.append(f"--microbatch-group-size-per-virtual-pipeline-stage {subject.group_size}")
    flags += subject.told(OPTIONS)
    remarks = [microbatch_remark(subject), *_differences(subject)][:2]
    sharding = [*subject.told(OPTIMIZERS), *subject.told(GROUPS), *subject.told_of_shard(SHARD)]
    return HandoverText([" ".join(flags)], [*remarks, *sharding, *subject.told(MODEL)])


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

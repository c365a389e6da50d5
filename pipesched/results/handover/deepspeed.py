"""DeepSpeed's pipeline module (its release 0.19.8: runtime/pipe/module.py)."""

from __future__ import annotations

from pipesched.results.handover import torchtitan
from pipesched.results.handover.megatron import DATA
from pipesched.results.handover.subject import UNLIKE, Answer, HandoverText, Refusal, Subject, has_unlike_messages

NAME = "DeepSpeed"
WHOLE = "dualpipe-v-whole"
MODULES = {"1f1b": "PipelineModule", WHOLE: "DualPipeVModule"}  # of deepspeed.pipe
LACKS = {way: f"{way.replace('_', ' ')} parallelism of {{{way}}}" for way in ("context", "expert", "expert_tensor")}
LACKS["low"] = "{precision}"
ARGUMENTS = {
    "tensor": "topology=PipeModelDataParallelTopology(num_pp={devices}, num_mp={tensor}, num_dp={data})",
    "full": "activation_checkpoint_interval=1",
}
CONFIG = {  # in JSON
    "micro": '"train_micro_batch_size_per_gpu": {micro}', "data": '"gradient_accumulation_steps": {microbatches}',
    "size": '"train_batch_size": {size}', "bf16": '"bf16": {{"enabled": true}}', "fp16": '"fp16": {{"enabled": true}}',
    "distributed_optimizer": '"zero_optimization": {{"stage": 1}}', "undivided": '"zero_optimization": {{"stage": 0}}',
}  # fmt: skip
SHARD = {key: CONFIG[key] for key in ("distributed_optimizer", "undivided")}
AGAIN = {key: torchtitan.REMARKS[key] for key in ("selective", "full_layers")}
REMARKS = {**DATA, "is_split": "sequence parallelism: the layers do it themselves", **AGAIN}
LAYER = "YourDecoderLayer"
BY_CLASS = f"{LAYER}: the class of your decoder layer; 'uniform' would count the embedding and the head as layers too"
SAVING = "recompute by layer (activation_checkpoint_interval)"


def answer(subject: Subject) -> Answer:
    """Return the module of 1F1B, or of DualPipeV with whole backwards."""
    if subject.family not in MODULES:
        has = f"{NAME} trains by 1F1B with a stage a rank, and by DualPipeV with whole backwards"
        return Refusal(f"{subject.described} takes code", has)
    if subject.family == WHOLE:
        count, least = subject.microbatches, 2 * subject.devices
        if count < least:
            return Refusal(f"{NAME}'s DualPipeV takes at least 2P microbatches, {least}; this has {count}")
        if has_unlike_messages(subject.problem):
            return Refusal(f"{NAME}'s DualPipeV runs {UNLIKE}")
    if subject.is_uneven:
        return Refusal(f"{NAME} cuts layers of a class evenly, or by their parameters, not into given numbers")
    for way in subject.told(LACKS):
        return Refusal(f"{NAME} has no {way} in its pipelines")
    more = "".join(f", {argument}" for argument in subject.told(ARGUMENTS))
    if has_unlike_messages(subject.problem):
        more += ", dynamic_shape=True"
    lines = [f"{MODULES[subject.family]}(layers, num_stages={subject.devices}, partition_method='type:{LAYER}'{more})"]
    lines += ["{" + ", ".join(subject.told(CONFIG)) + "}"] * bool(subject.known)
    count = subject.microbatches
    usual = f'{count} microbatches a step: "gradient_accumulation_steps": {count}'
    return HandoverText(lines, [BY_CLASS, *(subject.told(REMARKS) or [usual, *subject.told_of_shard(SHARD)])])

"""DeepSpeed's pipeline module (github.com/deepspeedai/DeepSpeed, edaa722: runtime/pipe/module.py)."""

from __future__ import annotations

from pipesched.results.handover import torchtitan
from pipesched.results.handover.megatron import DATA
from pipesched.results.handover.subject import Answer, HandoverText, Refusal, Subject

NAME = "DeepSpeed"
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
SAVING = "recompute by layer (activation_checkpoint_interval)"


def answer(subject: Subject) -> Answer:
    """Return the module of 1F1B, the only schedule that it trains by."""
    if subject.family != "1f1b":
        return Refusal(f"{subject.described} takes code", f"{NAME} trains by 1F1B alone, with a stage a rank")
    if subject.is_uneven:
        return Refusal(f"{NAME} cuts layers uniformly, or by their parameters, not into given numbers")
    for way in subject.told(LACKS):
        return Refusal(f"{NAME} has no {way} in its pipelines")
    more = "".join(f", {argument}" for argument in subject.told(ARGUMENTS))
    lines = [f"PipelineModule(layers, num_stages={subject.devices}, partition_method='uniform'{more})"]
    lines += ["{" + ", ".join(subject.told(CONFIG)) + "}"] * bool(subject.known)
    count = subject.microbatches
    usual = f'{count} microbatches a step: "gradient_accumulation_steps": {count}'
    return HandoverText(lines, subject.told(REMARKS) or [usual, *subject.told_of_shard(SHARD)])

"""Primus's config (github.com/AMD-AGI/Primus, fd1eeab: its own pipeline, `pp_algorithm`)."""

from __future__ import annotations

from pipesched.pipeline.layout_text import megatron_text
from pipesched.results.handover.megatron import DATA, OPTIONS
from pipesched.results.handover.subject import GROUPED, Answer, HandoverText, Refusal, Subject

NAME = "Primus"
ALGORITHMS = {
    "1f1b": "1f1b", GROUPED: "1f1b-interleaved", "zb-h1": "zero-bubble", "zb-auto": "zero-bubble-heuristic",
    "zb-v": "zbv-formatted", "v-half": "v-half", "v-min": "v-min",
}  # fmt: skip
SHARD = {
    "distributed_optimizer": "use_distributed_optimizer: true, overlap_grad_reduce: true, overlap_param_gather: true"
}
KEYS = {"fp8_format": "fp8", "fp4_format": "fp4", "fp4_param_gather": "fp4_param"}  # where a flag is not the key
ON = {"is_split": "sequence_parallel", "bf16": "bf16"}  # flags that are on where nothing is said
SAVING = "offload of all activations (offload: true)"


def answer(subject: Subject) -> Answer:
    """Return the keys of its algorithms."""
    algorithm = ALGORITHMS.get(subject.family)
    if algorithm is None:
        return Refusal(f"{subject.described} is none of them, and takes code", f"{NAME} has schedules by name")
    if subject.family == GROUPED and subject.chunks > 1 and subject.group_size != subject.devices:
        groups = f"groups of {subject.devices} (P) microbatches"
        return Refusal(f"{NAME} interleaves {groups}; this has {subject.group_size}")
    lines = [f"pp_algorithm: {algorithm}", f"pipeline_model_parallel_size: {subject.devices}"]
    if subject.is_uneven and subject.placement == "v":
        return Refusal(f"{NAME} takes layouts whose stage k is on rank k mod P; this has its stages on a V")
    if pattern := subject.known.get("letters"):
        return Refusal(f"{NAME} takes layouts of layers that are alike, and those of this model are {pattern}")
    if subject.layers is not None and subject.placement != "v":
        lines.append(f"pipeline_model_parallel_layout: '{megatron_text(subject.layers)}'")
    elif subject.chunks > 1:
        lines.append(f"num_virtual_stages_per_pipeline_rank: {subject.chunks}")
    for option in " ".join(["", *subject.told(OPTIONS)]).split(" --")[1:]:
        key, _, value = option.partition(" ")
        flag = key.replace("-", "_")
        lines.append(f"{KEYS.get(flag, flag)}: {value or 'true'}")
    lines += [f"{flag}: false" for key, flag in ON.items() if subject.known and not subject.known.get(key)]
    remarks = subject.told(DATA) or [f"{subject.microbatches} microbatches a step"]
    return HandoverText(lines, [*remarks, *subject.told_of_shard(SHARD)])

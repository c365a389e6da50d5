"""The command line of Zero Bubble's fork of Megatron-LM (sail-sg/zero-bubble-pipeline-parallelism, 39f2c18)."""

from __future__ import annotations

from pipesched.results.handover import megatron
from pipesched.results.handover.subject import GROUPED, SLICED, Answer, HandoverText, Refusal, Subject

NAME = "Zero Bubble's fork of Megatron-LM"
PENDING = "--enable-zero-bubble --zero-bubble-max-pending-backward"
SETUP = "--zero-bubble-v-schedule --zero-bubble-v-schedule-mem-setup"
FLAGS = {  # for P, 2P and the slices of a microbatch; those of interleaved schedules depend on groups
    "1f1b": "--enable-zb-runtime", GROUPED: "", "zb-h1": f"{PENDING} {{0}}", "zb-h2": f"{PENDING} {{1}}",
    "zb-auto": f"{PENDING} auto", "zb-v": f"{SETUP} zb", "v-half": f"{SETUP} half", "v-min": f"{SETUP} min",
    "1f1b-v": "--enable-1f1b-v", SLICED: "--enable-zb-runtime --num-seq-splits {2}",
}  # fmt: skip
LACKS = (  # of Megatron-LM's options for a model
    "expert_tensor", "gathers", "bf16 gradients", "optimizer adam-bf16", "dispatcher deepep", "fp8",
    "fp8-blockwise", "mxfp8", "nvfp4", "fp8 weights", "mxfp8 weights", "nvfp4 weights",
)  # fmt: skip
SAVING = "offload by chunks (--cpu-offload --offload-chunk-num) in its groups of interleaved schedules"


def answer(subject: Subject) -> Answer:
    """Return the flags of its schedules, which it makes itself."""
    name = subject.family
    if name not in FLAGS:
        return Refusal(f"{subject.described} is none of them, and takes code", f"{NAME} has schedules by flags")
    if pattern := subject.known.get("letters"):
        return Refusal(f"{NAME} cuts layers that are alike, and those of this model are {pattern}")
    if subject.is_uneven:
        return Refusal(f"{NAME} cuts the layers evenly, and here stages have different numbers of them")
    slices = subject.problem.slices
    if len({*slices.tokens}) > 1:
        return Refusal(f"{NAME} cuts sequences evenly, and here slices have different numbers of tokens")
    numbers = (subject.devices, 2 * subject.devices, slices.count)
    own = _groups(subject) if name == GROUPED else [FLAGS[name].format(*numbers)]
    model = subject.told({key: text for key, text in megatron.OPTIONS.items() if key not in LACKS})
    lacking = subject.told({key: f"{NAME} has no {megatron.OPTIONS[key]}" for key in LACKS})
    flags = " ".join([megatron.pipeline_flag(subject), *own, *model])
    remarks = [megatron.microbatch_remark(subject), *subject.told_of_shard(megatron.SHARD), *lacking]
    return HandoverText([flags], remarks)


def _groups(subject: Subject) -> list[str]:
    chunks, group = subject.chunks, subject.group_size
    flags = [f"--num-virtual-stages-per-pipeline-rank {chunks}"] if chunks > 1 else []
    if chunks > 1 and group != subject.devices:
        flags.append(f"--microbatch-group-size-per-virtual-pipeline-stage {group}")
    return [*flags, f"--interleave-group-size {group}"]

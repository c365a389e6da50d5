"""Megatron-LM's command line (github.com/NVIDIA/Megatron-LM, d98e8a6: megatron/training/arguments.py)."""

from __future__ import annotations

from pipesched.estimation.layout import megatron_text
from pipesched.file_formats.handover.subject import GROUPED, Answer, HandoverText, Refusal, Subject

NAME = "Megatron-LM"
HAS = ("1f1b", GROUPED)
SAVING = "recompute and offload by layer or module (--recompute-*, --fine-grained-activation-offloading)"


def answer(subject: Subject) -> Answer:
    """Return the flags of 1F1B, or of the interleaved schedule."""
    if subject.family not in HAS:
        return Refusal(f"{NAME} has 1F1B and the interleaved schedule by flags; {subject.described} takes code")
    wrong = wrong_group(subject)
    if wrong:
        return Refusal(wrong)
    flags = [pipeline_flag(subject), *stage_flags(subject)]
    if subject.chunks > 1 and subject.group_size != subject.devices:
        flags.append(f"--microbatch-group-size-per-virtual-pipeline-stage {subject.group_size}")
    return HandoverText([" ".join(flags)], [microbatch_remark(subject)])


def pipeline_flag(subject: Subject) -> str:
    """Return the number of ranks."""
    return f"--pipeline-model-parallel-size {subject.devices}"


def stage_flags(subject: Subject) -> list[str]:
    """Return how the model is cut: the layout where layers are known, else the number of chunks where it is above 1.

    In a layout stage k is on rank k mod P.
    """
    if subject.layers is not None:
        return [f"--pipeline-model-parallel-layout '{megatron_text(subject.layers)}'"]
    return [f"--num-virtual-stages-per-pipeline-rank {subject.chunks}"] if subject.chunks > 1 else []


def wrong_group(subject: Subject) -> str:
    """Say why Megatron refuses the group of an interleaved schedule; "" where it does not."""
    if subject.chunks == 1:
        return ""
    group, devices, microbatches = subject.group_size, subject.devices, subject.microbatches
    if microbatches < devices:
        return f"{NAME} interleaves at least P microbatches, {devices}; this has {microbatches}"
    if not devices <= group <= microbatches:
        return f"{NAME} takes groups of {devices} (P) to {microbatches} (M) microbatches; this has {group}"
    rest = microbatches % group
    if 0 < rest < devices:
        return f"{NAME} refuses {microbatches} microbatches in groups of {group}: the last has {rest}, fewer than P"
    return ""


def microbatch_remark(subject: Subject) -> str:
    """Return which batch makes the number of microbatches."""
    count = subject.microbatches
    return f"{count} microbatches a step: --global-batch-size is {count} x --micro-batch-size x data-parallel size"

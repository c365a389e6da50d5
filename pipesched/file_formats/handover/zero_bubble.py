"""The command line of Zero Bubble's fork of Megatron-LM (sail-sg/zero-bubble-pipeline-parallelism, 39f2c18)."""

from __future__ import annotations

from pipesched.file_formats.handover import megatron
from pipesched.file_formats.handover.subject import GROUPED, Answer, HandoverText, Refusal, Subject

NAME = "Zero Bubble's fork of Megatron-LM"
PENDING = {"zb-h1": 1, "zb-h2": 2}  # backwards in flight, in P
MEMORY = {"zb-v": "zb", "v-half": "half", "v-min": "min"}
HAS = ("1f1b", GROUPED, *PENDING, "zb-auto", *MEMORY, "1f1b-v")
SAVING = "offload by chunks (--cpu-offload --offload-chunk-num) in its groups of interleaved schedules"


def answer(subject: Subject) -> Answer:
    """Return the flags of its schedules, which it makes itself."""
    name = subject.family
    if name not in HAS:
        return Refusal(f"{NAME} has schedules by flags; {subject.described} is none of them, and takes code")
    if subject.is_uneven:
        return Refusal(f"{NAME} cuts the layers evenly, and here stages have different numbers of them")
    flags = [megatron.pipeline_flag(subject)]
    if name == "1f1b":
        flags.append("--enable-zb-runtime")
    elif name == GROUPED:
        flags += _groups(subject)
    elif name in PENDING:
        flags += ["--enable-zero-bubble", f"--zero-bubble-max-pending-backward {PENDING[name] * subject.devices}"]
    elif name == "zb-auto":
        flags += ["--enable-zero-bubble", "--zero-bubble-max-pending-backward auto"]
    elif name == "1f1b-v":
        flags.append("--enable-1f1b-v")
    else:
        flags += ["--zero-bubble-v-schedule", f"--zero-bubble-v-schedule-mem-setup {MEMORY[name]}"]
    return HandoverText([" ".join(flags)], [megatron.microbatch_remark(subject)])


def _groups(subject: Subject) -> list[str]:
    chunks, group = subject.chunks, subject.group_size
    flags = [f"--num-virtual-stages-per-pipeline-rank {chunks}"] if chunks > 1 else []
    if chunks > 1 and group != subject.devices:
        flags.append(f"--microbatch-group-size-per-virtual-pipeline-stage {group}")
    return [*flags, f"--interleave-group-size {group}"]

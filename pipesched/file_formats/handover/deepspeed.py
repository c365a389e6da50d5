"""DeepSpeed's pipeline module (github.com/deepspeedai/DeepSpeed, edaa722: runtime/pipe/module.py)."""

from __future__ import annotations

from pipesched.file_formats.handover.subject import Answer, HandoverText, Refusal, Subject

NAME = "DeepSpeed"
SAVING = "recompute by layer (activation_checkpoint_interval)"


def answer(subject: Subject) -> Answer:
    """Return the module of 1F1B, the only schedule that it trains by."""
    if subject.family != "1f1b":
        return Refusal(f"{NAME} trains by 1F1B alone, with a stage a rank; {subject.described} takes code")
    if subject.is_uneven:
        return Refusal(f"{NAME} cuts layers uniformly, or by their parameters, not into given numbers")
    line = f"PipelineModule(layers, num_stages={subject.devices}, partition_method='uniform')"
    return HandoverText(
        [line], [f'{subject.microbatches} microbatches a step: "gradient_accumulation_steps": {subject.microbatches}']
    )

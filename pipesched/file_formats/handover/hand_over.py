"""`hand_over`: the text that makes a framework train by a schedule, or why it cannot and what is nearest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipesched.checks import look_up
from pipesched.errors import Inexpressible
from pipesched.file_formats.handover import deepspeed, megatron, primus, torchtitan, zero_bubble
from pipesched.file_formats.handover.answers import Answer, Refusal
from pipesched.file_formats.handover.subject import GROUPED, Subject, subject_of
from pipesched.pipeline.check import checked
from pipesched.pipeline.schedule import Schedule
from pipesched.results.outcome import Outcome

FRAMEWORKS: dict[str, tuple[str, Callable[[Subject], Answer], Sequence[str]]] = {
    "megatron": (megatron.NAME, megatron.answer, megatron.HAS),
    "torchtitan": (torchtitan.NAME, torchtitan.answer, tuple(torchtitan.CLASSES)),
    "deepspeed": (deepspeed.NAME, deepspeed.answer, ("1f1b",)),
    "primus": (primus.NAME, primus.answer, tuple(primus.ALGORITHMS)),
    "zero-bubble": (zero_bubble.NAME, zero_bubble.answer, zero_bubble.HAS),
}


def hand_over(schedule: Schedule | Outcome, framework: str, *, layers: Sequence[int] | None = None) -> str:
    """Return the text that makes a framework train by a schedule: to paste, with remarks behind "# ".

    What counts is the order, not the name that a schedule has: one of a solve that equals 1F1B is 1F1B.

    Args:
        schedule: The schedule, checked first.
        framework: "megatron" (flags), "torchtitan" (flags), "deepspeed" (Python), "primus" (YAML) or "zero-bubble"
            (flags of the fork of Megatron-LM).
        layers: The decoder layers of each stage; default: those of a problem by layers or of a model, if it has them.

    Raises:
        ConfigError: For a framework that is not known, and layers that are not one number a stage.
        Inexpressible: Where the framework has no such schedule: why, and the nearest that it has.
        InvalidSchedule: For a schedule that breaks a rule.
    """
    _, answer, _ = look_up(FRAMEWORKS, framework, "framework", "framework")
    subject = subject_of(schedule, layers)
    checked(subject.schedule)
    found = answer(subject)
    if isinstance(found, Refusal):
        nearest = nearest_family(subject, framework)
        raise Inexpressible(f"{found.why}; the nearest that it has is {nearest}", nearest)
    return "".join(f"{line}\n" for line in [*found.lines, *(f"# {remark}" for remark in found.remarks)])


def nearest_family(subject: Subject, framework: str) -> str:
    """Return the family of a framework with the same stages: of one a device, two copies, a V, or several."""
    _, _, has = FRAMEWORKS[framework]
    wanted = ["1f1b"]
    if subject.chunks > 1 and subject.placement != "linear" and subject.microbatches >= subject.devices:
        wanted.insert(0, GROUPED)
    if subject.placement == "v":
        wanted.insert(0, "zb-v")
    if subject.placement == "bidirectional":
        wanted = ["dualpipe-v", GROUPED, "1f1b"]
    return next(name for name in wanted if name in has)

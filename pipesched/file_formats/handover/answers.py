"""What a framework answers: text to paste, or that it has no such schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipesched.file_formats.handover.subject import Subject


class HandoverText(NamedTuple):
    """Lines to paste, and remarks on them."""

    lines: Sequence[str]
    remarks: Sequence[str] = ()


class Refusal(NamedTuple):
    """Why a framework cannot express a schedule."""

    why: str


Answer = HandoverText | Refusal


def described(subject: Subject) -> str:
    """Name a schedule in a sentence."""
    return subject.family or f"the order of {subject.outcome.algorithm!r}"


def no_operation(subject: Subject, name: str, instead: str) -> Refusal:
    """Refuse recompute and offload as operations; `instead` is how the framework has them."""
    kinds = ", ".join(subject.saving)
    return Refusal(f"{name} has no operations {kinds} in its schedules; it has {instead}")

"""Which trainers can run a schedule as it is (`verdicts`), and how many copies of the weights it needs.

PyTorch runs any order by our CSV, so it is judged here; what others take, the texts of `hand_over` say (FRAMEWORKS).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.kinds import COMPUTATION_LETTERS, KINDS
from pipesched.pipeline.problem.problem import Problem
from pipesched.results.handover.subject import UNLIKE, Refusal, has_unlike_messages, no_whole_step, subject_of
from pipesched.results.outcome import Outcome
from pipesched.schedulers.registry import family

PYTORCH = "pytorch"
TRAINERS = ("megatron", "torchtitan", PYTORCH, "primus", "zero-bubble", "deepspeed", "megatron-bridge", "maxtext")
ADVICE = {  # what to do about a kind of operation that PyTorch lacks
    "recompute": "; there the model does that itself (torch.utils.checkpoint): schedule without `recompute`, with its"
    " cost in the backward",
    "offload": "; there the model does that itself (torch.autograd.graph.save_on_cpu): schedule without `offload`",
}


class Verdict(NamedTuple):
    """Whether a trainer takes a schedule: `note` is the file that it needs for that, if any, else why it does not."""

    trainer: str
    takes: bool
    note: str = ""


def verdicts(outcome: Outcome, made_by: str = "", trainers: Iterable[str] = TRAINERS) -> tuple[Verdict, ...]:
    """Return what each trainer says of a schedule; `made_by` is its family, if known: else orders are compared."""
    from pipesched.results.handover.hand_over import FRAMEWORKS

    subject, found = subject_of(outcome, made_by=made_by), []
    for trainer in trainers:
        if trainer == PYTORCH:
            why = refused_by_pytorch(outcome.schedule) or unlike_for_pytorch(outcome.problem)
            found.append(Verdict(trainer, not why, why))
        elif isinstance(answer := FRAMEWORKS[trainer].answer(subject), Refusal):
            found.append(Verdict(trainer, False, answer.why))
        else:
            found.append(Verdict(trainer, True, answer.file))
    return tuple(found)


def takes(outcome: Outcome, trainer: str, made_by: str = "") -> bool:
    """Return whether a trainer of TRAINERS can run a schedule; `made_by` as for `verdicts`."""
    return verdicts(outcome, made_by, [trainer])[0].takes


def takes_orders(trainer: str) -> bool:
    """Return whether a trainer runs any order of a copy of each stage, not only those of families that it has."""
    from pipesched.results.handover.hand_over import FRAMEWORKS

    return trainer == PYTORCH or FRAMEWORKS[trainer].takes_orders


def families_of(trainer: str, names: Iterable[str]) -> list[str]:
    """Return the families, of these names, of which a trainer takes schedules where the numbers suit it."""
    from pipesched.results.handover.hand_over import FRAMEWORKS

    if takes_orders(trainer):
        return [name for name in names if family(name).copies == 1]
    return [name for name in names if family(name).name in FRAMEWORKS[trainer].has]


def runs_in(schedule: Schedule) -> list[str]:
    """Return the trainers that load our file of a schedule: "pytorch" (torch.distributed.pipelining, from a CSV)."""
    return [] if refused_by_pytorch(schedule) or unlike_for_pytorch(schedule.problem) else [PYTORCH]


def unlike_for_pytorch(problem: Problem) -> str:
    """Return why PyTorch cannot run the microbatches of a problem, whose messages differ in size; "" if it can."""
    return f"PyTorch runs {UNLIKE}" if has_unlike_messages(problem) else ""


def refused_by_pytorch(schedule: Schedule) -> str | None:
    """Return why PyTorch's pipeline runtime cannot run a schedule, or None if it can."""
    if why := no_whole_step(schedule.problem, "PyTorch"):
        return why
    for letter in schedule.plan.index.letters:
        if letter not in COMPUTATION_LETTERS and (count := schedule.plan.count(letter)):
            name = KINDS[letter].name
            return (
                f"PyTorch's schedules have no operation {letter} ({name}), and {count} stand here{ADVICE.get(name, '')}"
            )
    if weight_copies(schedule) > 1:
        return (
            "PyTorch keeps each stage on one rank, and this bidirectional placement has two copies of each;"
            " dualpipe-v runs DualPipe's steps with one copy"
        )
    return None


def weight_copies(schedule: Schedule) -> int:
    """Return how many copies of each stage's weights a schedule needs: 2 where it is bidirectional, else 1."""
    return len(schedule.problem.settled_placement.ways)

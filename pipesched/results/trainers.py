"""Which trainers can run a schedule as it is, and how many copies of the weights it needs."""

from __future__ import annotations

from pipesched.pipeline.kinds import COMPUTATION_LETTERS, KINDS
from pipesched.pipeline.schedule import Schedule

PYTORCH = "pytorch"
TRAINERS = (PYTORCH,)
ADVICE = {  # what to do about a kind of operation that PyTorch lacks
    "recompute": "; there the model does that itself (torch.utils.checkpoint): schedule without `recompute`, with its"
    " cost in the backward",
    "offload": "; there the model does that itself (torch.autograd.graph.save_on_cpu): schedule without `offload`",
}


def runs_in(schedule: Schedule) -> list[str]:
    """Return the trainers that can run a schedule as it is: "pytorch" (torch.distributed.pipelining, from a CSV)."""
    return [] if refused_by_pytorch(schedule) else [PYTORCH]


def refused_by_pytorch(schedule: Schedule) -> str | None:
    """Return why PyTorch's pipeline runtime cannot run a schedule, or None if it can."""
    for letter in schedule.plan.index.letters:
        if letter not in COMPUTATION_LETTERS and (count := schedule.plan.count(letter)):
            name = KINDS[letter].name
            return (
                f"PyTorch's schedules have no operation {letter} ({name}), and {count} stand here{ADVICE.get(name, '')}"
            )
    if schedule.problem.settled_placement.mirrored:
        return (
            "PyTorch keeps each stage on one rank, and this bidirectional placement has two copies of each;"
            " dualpipe-v runs DualPipe's steps with one copy"
        )
    return None


def weight_copies(schedule: Schedule) -> int:
    """Return how many copies of each stage's weights a schedule needs: 2 where it is bidirectional, else 1."""
    return 2 if schedule.problem.settled_placement.mirrored else 1

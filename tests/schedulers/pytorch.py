"""The orders of PyTorch's own schedule classes, as their runtime executes them, without processes or tensors.

The classes of `torch.distributed.pipelining.schedules` are private in their details: this is for torch 2.13 and
2.15.
"""

from __future__ import annotations

from typing import Any

SINGLE = {"1f1b": "Schedule1F1B", "naive": "ScheduleGPipe"}
MULTI = {
    "looped-bfs": "ScheduleLoopedBFS",
    "interleaved": "ScheduleInterleaved1F1B",
    "interleaved-zb": "ScheduleInterleavedZeroBubble",
    "dualpipe-v": "ScheduleDualPipeV",
    "zb-v": "ScheduleZBVZeroBubble",
}


def rounds(devices: int, microbatches: int) -> int:
    """In how many groups PyTorch's interleaved classes take the microbatches; it must divide their number."""
    return max(1, microbatches // devices)


def takes(name: str, devices: int, chunks: int, microbatches: int) -> bool:
    """What the constructors of the classes ask for."""
    if name in ("1f1b", "naive"):
        return chunks == 1 and (name == "naive" or microbatches >= devices)
    if name == "dualpipe-v":
        return chunks == 2 and microbatches >= 2 * devices
    if name == "zb-v":
        return chunks == 2
    return name == "looped-bfs" or microbatches % rounds(devices, microbatches) == 0


def executed(schedules: Any, name: str, devices: int, chunks: int, microbatches: int) -> list[list[str]]:
    """The operations of each rank in the order in which PyTorch's class of that family runs them.

    `schedules` is the module. The classes with one stage a rank say their order in the loop of their step (what
    `pipeline_order` says of the last rank of 1F1B is wrong), the others build a list that their runtime follows.
    """
    if name in SINGLE:
        return [_stepped(getattr(schedules, SINGLE[name]), rank, devices, microbatches) for rank in range(devices)]
    schedule = object.__new__(getattr(schedules, MULTI[name]))
    schedule.pp_group_size, schedule.n_local_stages, schedule._n_microbatches = devices, chunks, microbatches
    schedule._stages, schedule.num_stages = [None] * chunks, devices * chunks
    schedule.microbatches_per_round = microbatches // rounds(devices, microbatches)
    ranks = [schedule._calculate_single_rank_operations(rank) for rank in range(devices)]
    return [[str(action) for action in actions if action is not None] for actions in ranks]


class RecordingStage:
    """A stage that notes what a schedule asks of it. Nothing to send or receive."""

    def __init__(self, rank: int, ranks: int) -> None:
        self.stage_index, self.num_stages = rank, ranks
        self.ran: list[str] = []

    def forward_one_chunk(self, microbatch: int, *_: object, **__: object) -> None:
        self.ran.append(f"{self.stage_index}F{microbatch}")

    def backward_one_chunk(self, microbatch: int, **_: object) -> None:
        self.ran.append(f"{self.stage_index}B{microbatch}")

    def perform_reduce_grad(self, *_: object) -> None: ...

    def release_fwd_send_outputs(self, _: int) -> None: ...

    def nothing(self, _: int) -> list[object]:
        return []

    get_fwd_recv_ops = get_fwd_send_ops = get_bwd_recv_ops = get_bwd_send_ops = nothing


def _stepped(kind: Any, rank: int, ranks: int, microbatches: int) -> list[str]:
    """What the step of a class with one stage a rank runs."""
    schedule, stage = object.__new__(kind), RecordingStage(rank, ranks)
    schedule._stage, schedule._num_stages, schedule._n_microbatches = stage, ranks, microbatches
    schedule.scale_grads = schedule._finalize_gradients = True  # 2.13 has no such thing as the second
    schedule._check_inputs = lambda *_: ([()] * microbatches, [{}] * microbatches)
    for other in ("_initialize_stage", "_maybe_compute_loss", "_maybe_get_loss", "_update_losses"):
        setattr(schedule, other, lambda *_: None)
    schedule._step_microbatches()
    return stage.ran

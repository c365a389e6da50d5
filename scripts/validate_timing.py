"""Hold our times against real ones: schedules whose operations sleep, in PyTorch's pipeline runtime and in ours.

    python scripts/validate_timing.py

Four processes with gloo run each schedule; F, R, I and W sleep a fixed time each, and B the sum of I and W. Transfers
of such small tensors take no time, in the simulation too. The makespan is from the first operation of any rank to the
last end, the best of a few steps. Exit code 1 when it differs from the simulated one by more than 15 %.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pipesched
from pipesched.file_formats.pytorch_csv import dump, parse
from pipesched.runtime.rank_processes import rank_processes

DEVICES, MICROBATCHES = 4, 8
MILLISECONDS = {"F": 30, "B": 60, "I": 35, "W": 25}
STEPS = 3  # the first one also sets up the communication
TOLERANCE = 0.15
Spans = list[tuple[float, float]]  # of a rank: the first begin and the last end of its operations, step by step


def problem(stages: int = DEVICES, **costs: Any) -> pipesched.Problem:
    """Return a problem; its backwards are split where no costs are given."""
    costs = costs or {"backward_input": MILLISECONDS["I"], "backward_weight": MILLISECONDS["W"]}
    return pipesched.make_problem(
        devices=DEVICES, stages=stages, microbatches=MICROBATCHES, forward=MILLISECONDS["F"], **costs
    )


def in_pytorch(rank: int, path: str) -> Spans:
    """Run a CSV in PyTorch's runtime, as one of the ranks; every operation of a stage sleeps as long as it costs."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    (_, placement), moments, found = parse(Path(path).read_text(), path), list[float](), Spans()
    devices = placement.devices
    mine = [stage for stage, device in enumerate(devices) if device == rank]
    stages = [PipelineStage(torch.nn.Linear(4, 4), stage, len(devices), torch.device("cpu")) for stage in mine]

    def sleepy(work: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            moments.append(time.monotonic())
            half = not options.get("full_backward", True)
            time.sleep(MILLISECONDS["I" if half else kind] / 1000)
            result = work(*args, **options)
            moments.append(time.monotonic())
            return result

        return run

    for stage in stages:
        stage.forward_one_chunk = sleepy(stage.forward_one_chunk, "F")
        stage.backward_one_chunk = sleepy(stage.backward_one_chunk, "B")
        stage.backward_weight_one_chunk = sleepy(stage.backward_weight_one_chunk, "W")
    schedule = _PipelineScheduleRuntime(stages, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    schedule._load_csv(path)
    data = torch.rand(MICROBATCHES, 4)
    for _ in range(STEPS):
        dist.barrier()
        moments.clear()
        schedule.step(*([data] if 0 in mine else []), target=data)
        found.append((min(moments), max(moments)))
    return found[1:]


def in_ours(rank: int, schedule: pipesched.Schedule) -> Spans:
    """Run a schedule in our runtime, as one of the ranks."""
    import torch
    import torch.distributed as dist

    from pipesched.runtime import Runtime

    class Gradient(torch.autograd.Function):  # type: ignore[misc]
        """The identity, whose backward sleeps."""

        @staticmethod
        def forward(ctx: Any, value: Any, kind: str) -> Any:
            ctx.kind = kind
            return value.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            time.sleep(MILLISECONDS[ctx.kind] / 1000)
            return gradients[0], None

    class Stage(torch.nn.Linear):  # type: ignore[misc]
        """A layer that sleeps; its input and its weight pass through such an identity each."""

        def forward(self, data: Any) -> Any:
            time.sleep(MILLISECONDS["F"] / 1000)
            return torch.nn.functional.linear(Gradient.apply(data, "I"), Gradient.apply(self.weight, "W"), self.bias)

    run, found = Runtime(schedule, {rank: Stage(4, 4)}, torch.nn.functional.mse_loss), Spans()
    data = torch.rand(MICROBATCHES, 2, 4)
    for _ in range(STEPS):
        dist.barrier()
        begin = time.monotonic()
        run.step(data.clone().requires_grad_(), data)
        operations, end = run.report()["operations"], time.monotonic()
        begin += operations[0]["waited"] / 1000
        found.append((begin, min(end, begin + (operations[-1]["end"] - operations[0]["start"]) / 1000)))
    run.close()
    return found[1:]


def off(name: str, schedule: pipesched.Schedule, ranks: Sequence[Spans]) -> float:
    """Print how far the shortest makespan of the steps is from the simulated one, and return it."""
    steps = zip(*ranks, strict=True)
    real = 1000 * min(max(end for _, end in step) - min(begin for begin, _ in step) for step in steps)
    found: float = real / schedule.makespan - 1
    print(f"{name:<22} {schedule.makespan:>7.0f} ms {real:>7.0f} ms {found:>+10.1%}")
    return abs(found)


def main() -> int:
    """Run all, and print the table; 1 when a makespan is too far off."""
    whole: dict[str, Any] = {"backward": MILLISECONDS["B"], "recompute": MILLISECONDS["F"], "offload": 0}
    tight = problem(**whole, placement="linear", checkpoint=0, activation=1, budget=2)
    ours = {
        "solved, recompute": pipesched.solve(tight, recompute=True, time_limit=5).schedule,
        "solved, offload": pipesched.solve(tight, offload=True, time_limit=5).schedule,
        "1f1b, recompute full": pipesched.run(tight, "1f1b", recompute="full").schedule,
        "zb-h1": pipesched.run(problem(), "zb-h1").schedule,
    }
    print(f"{'schedule':<22} {'simulated':>10} {'measured':>10} {'difference':>10}")
    with tempfile.TemporaryDirectory() as folder, rank_processes(DEVICES, "cpu") as call:
        worst = 0.0
        for algorithm, stages in {"naive": 4, "1f1b": 4, "interleaved": 8, "zb-h1": 4}.items():
            schedule = pipesched.run(problem(stages), algorithm).schedule
            path = Path(folder, f"{algorithm}.csv")
            path.write_text(dump(schedule))
            worst = max(worst, off(f"PyTorch: {algorithm}", schedule, call(in_pytorch, str(path))))
        for name, schedule in ours.items():
            worst = max(worst, off(name, schedule, call(in_ours, schedule)))
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    raise SystemExit(main())

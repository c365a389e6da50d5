"""Hold our times against real ones: schedules with recomputation and offload, in our runtime, whose operations sleep.

    python scripts/validate_runtime.py

Four processes with gloo on the loopback interface run each schedule; F, R, I and W sleep a fixed time each, and B the
sum of I and W. Transfers of such small tensors take no time, in the simulation too. The makespan is from the first
operation of any rank to the last end, the best of a few steps. Exit code 1 when it differs from the simulated one by
more than 15 %.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pipesched

DEVICES, MICROBATCHES, STEPS, TOLERANCE = 4, 8, 3, 0.15
FORWARD, HALF = 0.030, 0.030  # seconds


def cases() -> dict[str, pipesched.Schedule]:
    """Return schedules that recompute, offload and load; and one with I and W apart."""
    whole: dict[str, Any] = {"forward": 30, "backward": 60, "recompute": 30, "offload": 0, "checkpoint": 0}
    sizes: dict[str, Any] = {"devices": DEVICES, "stages": DEVICES, "microbatches": MICROBATCHES, "placement": "linear"}
    tight = pipesched.make_problem(**sizes, **whole, activation=1, budget=2)
    split = pipesched.make_problem(**sizes, forward=30, backward_input=30, backward_weight=30)
    solve = pipesched.solve
    return {
        "solved, recompute": solve(tight, recompute=True, time_limit=5).schedule,
        "solved, offload": solve(tight, offload=True, time_limit=5).schedule,
        "1f1b, recompute full": pipesched.run(tight, "1f1b", recompute="full").schedule,
        "zb-h1": pipesched.run(split, "zb-h1").schedule,
    }


def sleepy_stage() -> Any:
    """Return a layer that sleeps: at its forward, and in both halves of its backward."""
    import torch

    class Gradient(torch.autograd.Function):  # type: ignore[misc]
        """The identity, whose backward sleeps."""

        @staticmethod
        def forward(_ctx: Any, value: Any) -> Any:
            return value.clone()

        @staticmethod
        def backward(_ctx: Any, *gradients: Any) -> Any:
            time.sleep(HALF)
            return gradients[0]

    class Stage(torch.nn.Module):  # type: ignore[misc]
        """A layer whose input and whose weight pass through such an identity each."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, data: Any) -> Any:
            time.sleep(FORWARD)
            return torch.nn.functional.linear(Gradient.apply(data), Gradient.apply(self.layer.weight), self.layer.bias)

    return Stage()


def rank_main(rank: int, folder: str, todo: dict[str, pipesched.Schedule]) -> None:
    """One process: run every schedule, and write down when its operations began and ended."""
    import torch
    import torch.distributed as dist

    from pipesched.runtime import Runtime

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=DEVICES)
    data = torch.rand(MICROBATCHES, 2, 4)
    for name, schedule in todo.items():
        run, lines = Runtime(schedule, {rank: sleepy_stage()}, torch.nn.functional.mse_loss), []
        for _ in range(STEPS):
            dist.barrier()
            begin = time.monotonic()
            run.step(data.clone().requires_grad_(), data)
            operations = run.report()["operations"]
            end = time.monotonic()
            last = (operations[-1]["end"] - operations[0]["start"]) / 1000
            lines.append(
                f"{begin + operations[0]['waited'] / 1000} {min(end, begin + operations[0]['waited'] / 1000 + last)}\n"
            )
        run.close()
        Path(folder, f"{name}.{rank}").write_text("".join(lines))
    dist.destroy_process_group()


def measured(folder: Path, name: str) -> float:
    """Return the shortest makespan of the steps of a schedule but the first, in seconds."""
    ranks = [(folder / f"{name}.{rank}").read_text().splitlines() for rank in range(DEVICES)]
    steps = [[tuple(map(float, line.split())) for line in step] for step in zip(*ranks, strict=True)][1:]
    return min(max(end for _, end in step) - min(begin for begin, _ in step) for step in steps)


def main() -> int:
    """Run all, and print the table; 1 when a makespan is too far off."""
    import torch.multiprocessing as mp

    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        todo = cases()
        mp.start_processes(rank_main, args=(folder, todo), nprocs=DEVICES, start_method="forkserver")
        print(f"{'schedule':<22} {'simulated':>10} {'measured':>10} {'difference':>10}")
        for name, schedule in todo.items():
            simulated, real = schedule.makespan / 1000, measured(Path(folder), name)
            off = real / simulated - 1
            worst = max(worst, abs(off))
            print(f"{name:<22} {simulated * 1000:>7.0f} ms {real * 1000:>7.0f} ms {off:>+10.1%}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    raise SystemExit(main())

"""Hold the runtime's time per operation against PyTorch's own pipeline runtime, on the same plans.

    python scripts/bench_runtime.py

One process runs all stages of tiny layers, so that nothing but the runtimes takes time. Each runs a plan many times, in
turn with the other; the least time of a step counts. Exit code 1 when ours is more than twice theirs.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pipesched
from pipesched.file_formats.pytorch_csv import dump

STAGES, MICROBATCHES, WIDTH, ROUNDS = 4, 16, 4, 40
MOST = 2.0


def plans() -> dict[str, pipesched.Schedule]:
    """Return a plan with whole backwards and one with split ones, of one device."""
    sizes: dict[str, Any] = {"devices": 1, "stages": STAGES, "microbatches": MICROBATCHES}
    whole = pipesched.make_problem(**sizes, forward=1, backward=2)
    split = pipesched.make_problem(**sizes, forward=1, backward_input=1, backward_weight=1)
    return {"F, B": pipesched.run(whole, "list").schedule, "F, I, W": pipesched.run(split, "list").schedule}


def modules() -> list[Any]:
    """Return the stages: tiny, but with what makes a graph."""
    import torch

    layer = torch.nn.Linear
    return [torch.nn.Sequential(layer(WIDTH, WIDTH), torch.nn.Tanh(), layer(WIDTH, WIDTH)) for _ in range(STAGES)]


def ours(schedule: pipesched.Schedule) -> Any:
    """Return a step of our runtime."""
    import torch

    from pipesched.runtime import Runtime

    run = Runtime(schedule, dict(enumerate(modules())), torch.nn.functional.mse_loss)
    data = torch.rand(MICROBATCHES, 2, WIDTH)
    return lambda: run.step(data, data)


def theirs(schedule: pipesched.Schedule, folder: Path) -> Any:
    """Return a step of PyTorch's runtime by the same plan."""
    import torch
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    path = folder / "schedule.csv"
    path.write_text(dump(schedule))
    stages = [PipelineStage(module, stage, STAGES, torch.device("cpu")) for stage, module in enumerate(modules())]
    runtime = _PipelineScheduleRuntime(stages, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    runtime._load_csv(str(path))
    data = torch.rand(2 * MICROBATCHES, WIDTH)
    return lambda: runtime.step(data, target=data)


def main() -> int:
    """Measure both, and print the table; 1 when ours takes too long."""
    import torch
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
        print(f"{'plan':<10} {'operations':>10} {'ours':>12} {'PyTorch':>12} {'ratio':>7}")
        for plan, schedule in plans().items():
            steps = [ours(schedule), theirs(schedule, folder)]
            best = [float("inf")] * 2
            for _ in range(ROUNDS):
                for which, step in enumerate(steps):
                    begin = time.perf_counter()
                    step()
                    best[which] = min(best[which], time.perf_counter() - begin)
            each = [1e6 * seconds / len(schedule.plan) for seconds in best]
            worst = max(worst, each[0] / each[1])
            print(
                f"{plan:<10} {len(schedule.plan):>10} {each[0]:>9.1f} us {each[1]:>9.1f} us {each[0] / each[1]:>7.2f}"
            )
        dist.destroy_process_group()
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())

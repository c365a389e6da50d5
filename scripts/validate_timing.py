"""Hold our times against real ones: schedules whose operations sleep, in PyTorch's pipeline runtime.

    python scripts/validate_timing.py

Four processes with gloo on the loopback interface run each schedule; F, I and W sleep a fixed time each, B the sum of I
and W. The makespan is the time from the first operation of any rank to the last end, the best of a few steps. Exit code
1 when it differs from the simulated one by more than 15 %.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pipesched
from pipesched.file_formats.pytorch_csv import dump, parse

DEVICES, MICROBATCHES = 4, 8
MILLISECONDS = {"F": 30, "B": 60, "I": 35, "W": 25}
ALGORITHMS = {"naive": 4, "1f1b": 4, "interleaved": 8, "zb-h1": 4}  # and the stages of each
STEPS = 3  # the first one also sets up the communication
TOLERANCE = 0.15


class Case(NamedTuple):
    """A schedule to run."""

    algorithm: str
    csv: Path
    devices: tuple[int, ...]
    simulated: float  # seconds


def cases(folder: Path) -> list[Case]:
    """Return the schedules, each in its file."""
    found = []
    for algorithm, stages in ALGORITHMS.items():
        problem = pipesched.make_problem(
            devices=DEVICES,
            stages=stages,
            microbatches=MICROBATCHES,
            forward=MILLISECONDS["F"],
            backward_input=MILLISECONDS["I"],
            backward_weight=MILLISECONDS["W"],
        )
        schedule = pipesched.run(problem, algorithm).schedule
        text, path = dump(schedule), folder / f"{algorithm}.csv"
        path.write_text(text)
        found.append(Case(algorithm, path, parse(text, path.name).placement.devices, schedule.makespan / 1000))
    return found


def rank_main(rank: int, folder: str, todo: list[Case]) -> None:
    """One process: run every case, and write down when its operations began and ended."""
    import torch
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=DEVICES)
    for case in todo:
        times = [f"{begin} {end}\n" for begin, end in _steps(case, rank)]
        Path(f"{case.csv}.{rank}").write_text("".join(times))
    dist.destroy_process_group()


def _steps(case: Case, rank: int) -> list[tuple[float, float]]:
    """Return the first begin and the last end of this rank's operations, step by step."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    count, found = len(case.devices), []
    mine = [stage for stage, device in enumerate(case.devices) if device == rank]
    stages = [PipelineStage(torch.nn.Linear(4, 4), stage, count, torch.device("cpu")) for stage in mine]
    moments: list[float] = []
    for stage in stages:
        _make_sleepy(stage, moments)
    schedule = _PipelineScheduleRuntime(stages, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    schedule._load_csv(str(case.csv))
    data = torch.rand(MICROBATCHES, 4)
    for _ in range(STEPS):
        dist.barrier()
        moments.clear()
        schedule.step(*([data] if 0 in mine else []), target=data)
        found.append((min(moments), max(moments)))
    return found[1:]


def _make_sleepy(stage: Any, moments: list[float]) -> None:
    """Let every operation of a stage sleep as long as it costs, and note when it begins and ends."""

    def sleepy(work: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            moments.append(time.monotonic())
            half = not options.get("full_backward", True)
            time.sleep(MILLISECONDS["I" if half else kind] / 1000)
            result = work(*args, **options)
            moments.append(time.monotonic())
            return result

        return run

    stage.forward_one_chunk = sleepy(stage.forward_one_chunk, "F")
    stage.backward_one_chunk = sleepy(stage.backward_one_chunk, "B")
    stage.backward_weight_one_chunk = sleepy(stage.backward_weight_one_chunk, "W")


def measured(case: Case) -> float:
    """Return the shortest makespan of the steps of a case, in seconds."""
    ranks = [Path(f"{case.csv}.{rank}").read_text().splitlines() for rank in range(DEVICES)]
    steps = [[tuple(map(float, line.split())) for line in step] for step in zip(*ranks, strict=True)]
    return min(max(end for _, end in step) - min(begin for begin, _ in step) for step in steps)


def main() -> int:
    """Run all, and print the table; 1 when a makespan is too far off."""
    import torch.multiprocessing as mp

    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        todo = cases(Path(folder))
        mp.start_processes(rank_main, args=(folder, todo), nprocs=DEVICES, start_method="fork")
        print(f"{'schedule':<12} {'simulated':>10} {'measured':>10} {'difference':>10}")
        for case in todo:
            real = measured(case)
            off = real / case.simulated - 1
            worst = max(worst, abs(off))
            print(f"{case.algorithm:<12} {case.simulated * 1000:>7.0f} ms {real * 1000:>7.0f} ms {off:>+10.1%}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    raise SystemExit(main())

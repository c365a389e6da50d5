"""Train a model by a schedule: the loop around the runtime, and the processes that run it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from pipesched.checks import require_callable, require_number, require_whole
from pipesched.errors import ConfigError
from pipesched.executors.spec import cores
from pipesched.pipeline.schedule import Schedule
from pipesched.runtime import model_source
from pipesched.runtime.devices import CUDA, kind_of_device, take_device, warn_untried
from pipesched.runtime.program import programs
from pipesched.runtime.rank_processes import rank_processes
from pipesched.runtime.run import Runtime
from pipesched.runtime.source import checked_schedule


class TrainRequest(NamedTuple):
    """What to train: see `train`."""

    schedule: Schedule | str | Path
    model: str
    loss: str | None
    shape: tuple[int, ...]
    dtype: Any
    steps: int
    rate: float
    seed: int
    trace: str | Path | None


def train(
    schedule: Schedule | str | Path,
    model: str = model_source.SMALL,
    shape: Sequence[int] = (8, 64),
    *,
    loss: str | None = None,
    dtype: str = "float32",
    steps: int = 5,
    rate: float = 1e-3,
    seed: int = 0,
    trace: str | Path | None = None,
    listener: Callable[[int, float], None] | None = None,
) -> dict[str, Any] | None:
    """Train a model on random data by a schedule, and return the losses and what was measured.

    Under torchrun this process is one of the ranks; else one process is started on this machine for each device.

    Args:
        schedule: A schedule, or the path of its document.
        model: `package.module:function`, which returns the pieces of the model in forward order; where the schedule
            has fewer stages, several pieces in a row make one.
        shape: The sizes of a microbatch.
        loss: `package.module:function` of the output and the target, which has the shape of the input; default: the
            mean squared error.
        dtype: The type of the input, by its name.
        steps: Training steps, each followed by one of Adam.
        rate: Its learning rate.
        seed: Of the data, and of the random numbers of the model.
        trace: A folder for PyTorch's profile of the steps, one file a rank: `rank0.json`, and so on. The first step
            also sets up connections; what reads the files drops it.
        listener: Called with the number of each step and its loss when it ends; under torchrun on the first rank.

    Returns:
        An object that JSON holds: `losses`, the mean over the microbatches for each step, and `ranks`, the report of
        each rank's last step; `stopped_by` is "done". None on all ranks of torchrun but the first.

    Raises:
        ConfigError: For what cannot be trained.
        InvalidSchedule: For a schedule that breaks rules.
        RankFailed: For what a rank raised.
    """
    require_whole(steps, "steps", least=1)
    require_whole(seed, "seed")
    require_number(rate, "rate")
    tell = require_callable(listener, "listener") or (lambda *_: None)
    if loss is not None:
        model_source.named_function(loss, "loss")
    number, checked = model_source.dtype_named(dtype), checked_schedule(schedule, "schedule")
    job = TrainRequest(schedule, model, loss, model_source.microbatch_shape(shape), number, steps, rate, seed, trace)
    programs(checked)
    model_source.joined(model_source.pieces_of(model), checked.problem.stages)
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        try:
            return train_rank(int(os.environ.get("LOCAL_RANK", "0")), job, tell)
        finally:
            dist.destroy_process_group()
    kind, devices = kind_of_device(), checked.problem.devices
    if kind == CUDA and torch.cuda.device_count() < devices:
        raise ConfigError(f"is for {devices} devices; this machine has {torch.cuda.device_count()} GPUs", "schedule")
    warn_untried(torch.device(kind))
    with rank_processes(devices, kind) as call:
        result: dict[str, Any] = call(train_rank, job, listener=tell)[0]
        return result


def train_rank(local_rank: int, job: TrainRequest, tell: Callable[..., Any]) -> dict[str, Any] | None:
    """Train the stages of this rank; the first one tells each step's loss when it ends, and returns the result."""
    device = take_device(local_rank, kind_of_device())
    rank, problem = dist.get_rank(), checked_schedule(job.schedule).problem
    pieces = model_source.joined(model_source.pieces_of(job.model), problem.stages)
    mine = problem.settled_placement.stages_on(rank) if rank < problem.devices else []
    modules = {stage: pieces[stage].to(device) for stage in mine}
    loss_fn = model_source.default_loss if job.loss is None else model_source.named_function(job.loss, "loss")
    run = Runtime(job.schedule, modules, loss_fn, seed=job.seed)
    optimizer = torch.optim.Adam([weight for stage in mine for weight in modules[stage].parameters()], lr=job.rate)
    data, target = (
        model_source.random_microbatches(problem.microbatches, job.shape, job.dtype, job.seed + part).to(device)
        for part in (0, 1)
    )
    losses: list[float] = []
    with nullcontext() if job.trace is None else _profiled(Path(job.trace), rank, problem.devices):
        for step in range(job.steps):
            found = run.step(data if 0 in mine else None, target if problem.stages - 1 in mine else None)
            optimizer.step()
            optimizer.zero_grad()
            total = torch.tensor(sum(map(float, found.values())), dtype=torch.float64, device=device)
            dist.all_reduce(total)
            losses.append(float(total) / problem.microbatches)
            if rank == 0:
                tell(step, losses[-1])
    reports: list[Any] = [None] * problem.devices
    dist.all_gather_object(reports, run.report())
    run.close()
    return None if rank else ended(losses, reports, "done")


def ended(losses: list[float], ranks: list[Any], stopped_by: str, reason: str | None = None) -> dict[str, Any]:
    """Return the document of a training run."""
    result = {"losses": losses, "ranks": ranks, "stopped_by": stopped_by, "reason": reason}
    return {"format": "pipesched.training", "version": 1, **result}


@contextmanager
def _profiled(folder: Path, rank: int, ranks: int) -> Iterator[None]:
    """Write PyTorch's profile of what runs inside as `rank<r>.json`, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with torch.profiler.profile() as profiler:
        profiler.add_metadata_json("pipesched", json.dumps({"ranks": ranks, "cores": cores()}))
        yield
    profiler.export_chrome_trace(str(folder / f".rank{rank}"))
    Path(folder, f".rank{rank}").replace(folder / f"rank{rank}.json")

"""Jobs of a pool of ranks: they run schedules in PyTorch's own runtime, and compare with the model in one piece."""

from __future__ import annotations

import os
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.runtime_ranks import SECONDS, Pool

# Tests that need torch are skipped without it, unless the environment asks for it: then they fail.
REQUIRED = os.environ.get("PIPESCHED_REQUIRE_TORCH") == "1"
needs_torch = pytest.mark.skipif(find_spec("torch") is None and not REQUIRED, reason="torch is not installed")

# PyTorch 2.15 takes a CSV with communication only with its waits, versions before it only without them.
HAS_WAITS = find_spec("torch") is not None and tuple(map(int, version("torch").split(".")[:2])) >= (2, 15)

WIDTH, ROWS = 4, 2  # of the model, and of a microbatch
TRACED = 4  # steps under the profiler


class Job(NamedTuple):
    """A CSV to run, or a class of PyTorch's by its name.

    `devices_of_stages` is the rank of each stage; other ranks look on.
    """

    csv: Path | str
    devices_of_stages: tuple[int, ...]
    microbatches: int
    format: str = "compute_only"
    defer_recv: bool = False
    lowered: Path | None = None  # where to write what PyTorch makes of it, communication included
    frozen: int = 0  # so many first stages need no gradients
    traces: Path | None = None  # folder for a trace of each rank; then a few steps run, and nothing is compared


class Dump(NamedTuple):
    """A schedule class of PyTorch's, to be written as a CSV: what it runs, or that with communication."""

    csv: Path
    name: str
    devices_of_stages: tuple[int, ...]
    microbatches: int
    format: str = "compute_only"


class Ran(NamedTuple):
    """What a rank did: its operations in order, the largest error of a gradient, and of the loss where it has that."""

    executed: list[str]
    gradient_error: float
    loss_error: float


def run_job(pool: Pool, job: Job | Dump, seconds: float = SECONDS) -> list[Ran]:
    """What each rank did. Raises Failed."""
    return pool.run(len(set(job.devices_of_stages)), _step if isinstance(job, Job) else _dump, job, seconds=seconds)


def _stages(devices_of_stages: tuple[int, ...], rank: int, group: Any, frozen: int = 0) -> list[Any]:
    """The stages that live on a rank."""
    import torch
    from torch.distributed.pipelining import PipelineStage

    mine = [stage for stage, placement in enumerate(devices_of_stages) if placement == rank]
    models = [_model(stage).requires_grad_(stage >= frozen) for stage in mine]
    return [
        PipelineStage(model, stage, len(devices_of_stages), torch.device("cpu"), group=group)
        for model, stage in zip(models, mine, strict=True)
    ]


def _dump(rank: int, group: Any, job: Dump) -> Ran:
    """Write the order of a class of PyTorch's."""
    from torch.distributed.pipelining import schedules

    stages, kind = _stages(job.devices_of_stages, rank, group), getattr(schedules, job.name)
    if issubclass(kind, schedules.PipelineScheduleSingle):
        order = kind(stages[0], job.microbatches)._get_pipeline_order()
        lines = [",".join("" if action is None else str(action) for action in row) for row in order.values()]
        job.csv.write_text("\n".join(lines) + "\n")
    else:
        kind(stages, job.microbatches)._dump_csv(f"{job.csv}.{rank}", job.format)
        Path(f"{job.csv}.{rank}").replace(job.csv)
    return Ran([], 0.0, 0.0)


def _step(rank: int, group: Any, job: Job) -> Ran:
    """One training step of this rank's stages, by the file."""
    import torch

    if job.traces is not None:
        _trace(job, rank, group)
        return Ran([], 0.0, 0.0)
    count, executed, losses = len(job.devices_of_stages), list[str](), list[Any]()
    stages = _stages(job.devices_of_stages, rank, group, job.frozen)
    for stage in stages:
        _record(stage, executed)
    schedule = _schedule(job, stages)
    if job.lowered and rank == 0:
        schedule._dump_csv(str(job.lowered))
    data, target = _data(job.microbatches)
    schedule.step(*([data] if job.devices_of_stages[0] == rank else []), target=target, losses=losses)
    gradients, loss = _in_one_piece(count, data, target)
    error = max(_gradient_error(stage.submod, gradients[stage.stage_index]) for stage in stages)
    return Ran(executed, error, float(abs(torch.stack(losses).detach().mean() - loss)) if losses else 0.0)


def _trace(job: Job, rank: int, group: Any) -> None:
    """A few training steps under torch.profiler."""
    import torch

    stages = _stages(job.devices_of_stages, rank, group)
    schedule, (data, target) = _schedule(job, stages), _data(job.microbatches)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(TRACED):
            schedule.step(*([data] if job.devices_of_stages[0] == rank else []), target=target, losses=[])
    profiler.export_chrome_trace(str(job.traces / f"trace{rank}.json"))  # type: ignore[operator]


def _schedule(job: Job, stages: list[Any]) -> Any:
    """PyTorch's object that runs the job."""
    import torch
    from torch.distributed.pipelining import schedules

    loss = torch.nn.functional.mse_loss
    if isinstance(job.csv, str):
        return getattr(schedules, job.csv)(stages[0], job.microbatches, loss_fn=loss)
    runtime = schedules._PipelineScheduleRuntime(stages, job.microbatches, loss_fn=loss, defer_pp_recv=job.defer_recv)
    runtime._load_csv(str(job.csv), format=job.format)
    return runtime


def _gradient_error(model: Any, expected: list[Any]) -> float:
    """The largest difference of a gradient; infinite where one is missing, none where none is needed."""
    pairs = [pair for pair in zip(model.parameters(), expected, strict=True) if pair[0].requires_grad]
    if any(parameter.grad is None for parameter, _ in pairs):
        return float("inf")
    return max((float((parameter.grad - gradient).abs().max()) for parameter, gradient in pairs), default=0.0)


def _model(stage: int) -> Any:
    import torch

    torch.manual_seed(stage)
    layers = [torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH)]
    return torch.nn.Sequential(*layers).to(torch.float64)


def _data(microbatches: int) -> tuple[Any, Any]:
    import torch

    torch.manual_seed(1000)
    data, target = torch.randn(2, ROWS * microbatches, WIDTH, dtype=torch.float64)
    return data, target


def _in_one_piece(stages: int, data: Any, target: Any) -> tuple[list[list[Any]], Any]:
    """The gradients of every stage's parameters, and the loss, of the model without a pipeline."""
    import torch

    models = [_model(stage) for stage in range(stages)]
    loss = torch.nn.functional.mse_loss(torch.nn.Sequential(*models)(data), target)
    loss.backward()
    return [[parameter.grad for parameter in model.parameters()] for model in models], loss.detach()


def _record(stage: Any, executed: list[str]) -> None:
    """Let a stage say what it is called to do."""
    forward, backward, weight = stage.forward_one_chunk, stage.backward_one_chunk, stage.backward_weight_one_chunk

    def forward_one_chunk(microbatch: int, *args: Any, **options: Any) -> Any:
        executed.append(f"{stage.stage_index}F{microbatch}")
        return forward(microbatch, *args, **options)

    def backward_one_chunk(microbatch: int, *args: Any, full_backward: bool = True, **options: Any) -> Any:
        executed.append(f"{stage.stage_index}{'B' if full_backward else 'I'}{microbatch}")
        return backward(microbatch, *args, full_backward=full_backward, **options)

    def backward_weight_one_chunk(microbatch: int, *args: Any, **options: Any) -> Any:
        executed.append(f"{stage.stage_index}W{microbatch}")
        return weight(microbatch, *args, **options)

    stage.forward_one_chunk, stage.backward_one_chunk = forward_one_chunk, backward_one_chunk
    stage.backward_weight_one_chunk = backward_weight_one_chunk

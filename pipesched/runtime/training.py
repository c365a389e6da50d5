"""`train` a model by a schedule: it starts a process a rank, each of which runs the loop of `train_rank`."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from pipesched.checks import require_callable, require_number, require_whole
from pipesched.errors import ConfigError, PipeschedError
from pipesched.executors import cores
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.problem import Problem
from pipesched.results.outcome import Outcome
from pipesched.runtime import model_source
from pipesched.runtime.devices import CPU, backend_of, kind_of_device, take_device
from pipesched.runtime.model_source import failure_of
from pipesched.runtime.program import checked_schedule, programs, warn_left_out
from pipesched.runtime.rank_processes import rank_processes
from pipesched.runtime.run import Runtime
from pipesched.runtime.team import is_lost
from pipesched.runtime.training_data import DataSource, Named, data_source, hint_for, moved, require_entries
from pipesched.runtime.weight_copies import tied_weights


class TrainRequest(NamedTuple):
    """What to train: see `train`."""

    schedule: Schedule
    model: str
    source: DataSource
    steps: int
    rate: float
    seed: int
    trace: str | Path | None
    verify: bool

    @property
    def shares(self) -> list[float] | None:
        """What each microbatch has of the mean over all rows, where their rows are given."""
        rows = self.source.rows
        return None if rows is None else [one / sum(rows) for one in rows]


def train(
    schedule: Schedule | Outcome | str | Path | Callable[..., Any],
    model: str = model_source.SMALL,
    shape: Sequence[int] | None = None,
    *,
    problem: Problem | None = None,
    data: Named | None = None,
    loss: Named | None = None,
    dtype: str | None = None,
    vocab: int | None = None,
    rows: Sequence[int] | None = None,
    steps: int = 5,
    rate: float = 1e-3,
    seed: int = 0,
    trace: str | Path | None = None,
    verify: bool = False,
    listener: Callable[[int, float], None] | None = None,
) -> dict[str, Any] | None:
    """Train a model by a schedule, and return the losses and what was measured.

    Under torchrun this process is one of the ranks; else one process is started on this machine for each device.

    Args:
        schedule: A schedule, or the path of its document; with a problem that of a CSV, or the name or function of an
            algorithm.
        model: `package.module:function`, which returns the pieces of the model in forward order; where the schedule
            has fewer stages, several pieces in a row make one. Pieces may share weights.
        shape: The sizes of a microbatch of random numbers, the same in each step; default: 8, 64.
        problem: What an algorithm schedules, or the costs of a CSV.
        data: Instead of random numbers, `package.module:function`, or a function that ranks can import, of a step and
            the number of microbatches. It returns inputs and targets, each a sequence of that many. Called for each
            step on the ranks of the first and of the last stage, which must get the same: seed by the step.
        loss: `mse`, `cross-entropy`, or a function, as for `data`, of the output of the last stage and the target of a
            microbatch, which returns one number. Default: mse; for inputs of integers cross-entropy, of an output
            (.., classes) and a target (..).
        dtype: The type of random inputs, by its name; default: float32. The target of floats is random numbers of the
            input's shape, that of integers random integers.
        vocab: Random integers are less than this; default: 2.
        rows: How many each microbatch has: the first size of its random inputs in place of that of `shape`, and its
            weight. The gradient then is that of the mean over all rows, where each loss is the mean over those of its
            microbatch. Without it that is the gradient of the sum of the losses. Beside `data` they only weigh.
        steps: Training steps, each followed by one of Adam.
        rate: Its learning rate.
        seed: Of the random numbers of data and model.
        trace: A new folder for PyTorch's profile of the steps, one file a rank: `rank0.json`, and so on. The first step
            also sets up connections; what reads the files drops it.
        verify: Train one step by the schedule, and one without a pipeline on each rank, and compare them instead.
        listener: Called with the number of each step and its loss when it ends; under torchrun on the first rank.

    Returns:
        An object that JSON holds: `losses`, the mean over the microbatches (with `rows` over all rows) for each step,
        and `ranks`, the report of each rank's last step. `stopped_by` is "done". Of a step to `verify`: `losses` and
        `apart` of each of the `parameters`, the farthest first, are the largest |a - b| / max(1, |b|) of elements, b
        without a pipeline (null: no number). `passed`: none exceeds `limit`, 1e-4 for weights of 32 bits, 1e-9 for 64.
        None on all ranks of torchrun but the first.

    Raises:
        ConfigError: For what cannot be trained.
        InvalidSchedule: For a schedule that breaks rules.
        RankFailed: For what a rank, or the model, the data or the loss raised.
    """
    require_whole(steps, "steps", least=1)
    require_whole(seed, "seed")
    require_number(rate, "rate")
    tell: Callable[..., Any] = require_callable(listener, "listener") or (lambda *_: None)
    source = data_source(data, loss, shape, dtype, vocab, usual=model_source.SHAPE)
    checked = checked_schedule(schedule, "schedule", problem)
    if rows is not None:
        given = require_entries(rows, "rows", checked.problem.microbatches)
        whole = (require_whole(given[entry], "rows", least=1, entry=entry) for entry in range(len(given)))
        source = source._replace(rows=tuple(whole))
    programs(checked)  # these raise here, before processes start
    model_source.joined(model_source.pieces_of(model), checked.problem)
    if trace is not None and any(Path(trace).glob("rank*.json")):
        raise ConfigError(f"{trace} holds the profiles of another training; name another folder", "trace")
    job = TrainRequest(checked, model, source, steps, rate, seed, trace, verify)
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:  # this process is one of the ranks of torchrun
        here = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
        dist.init_process_group(backend_of(kind_of_device(), here))
        try:
            return train_rank(int(os.environ.get("LOCAL_RANK", "0")), job, tell)
        finally:
            dist.destroy_process_group()
    for key in ("data", "loss"):
        try:
            pickle.dumps(getattr(source, key))
        except Exception:
            raise ConfigError("must stand at the top of a module, where ranks can import it", key) from None
    warn_left_out(checked)
    with rank_processes(checked.problem.devices, kind_of_device()) as call:
        result: dict[str, Any] = call(train_rank, job, listener=tell)[0]
        return result


def train_rank(local_rank: int, job: TrainRequest, tell: Callable[..., Any]) -> dict[str, Any] | None:
    """Train the stages of this rank; the first one tells each step's loss when it ends, and returns the result."""
    device, rank, problem = take_device(local_rank, kind_of_device()), dist.get_rank(), job.schedule.problem
    if job.verify:
        from pipesched.runtime.unpipelined import verify_rank

        return verify_rank(rank, job, Batches(job, device))
    pieces = model_source.joined(model_source.pieces_of(job.model), problem)
    mine = problem.settled_placement.stages_on(rank) if rank < problem.devices else []
    modules = {stage: pieces[stage].to(device) for stage in mine}
    batches = Batches(job, device)
    run = Runtime(job.schedule, modules, batches.loss, tied=tied_weights(pieces), seed=job.seed)
    weights = {id(weight): weight for stage in mine for weight in modules[stage].parameters()}
    optimizer = torch.optim.Adam(weights.values(), lr=job.rate) if weights else None
    shares, count = job.shares, problem.microbatches
    losses: list[float] = []
    with nullcontext() if job.trace is None else _profiled(Path(job.trace), rank, problem.devices, device):
        for step in range(job.steps):
            try:
                if 0 in mine or problem.stages - 1 in mine:
                    batches.take(step)
                found = run.step(batches.inputs, batches.targets, shares)
                if optimizer is not None:
                    optimizer.step()
                    optimizer.zero_grad()
            except Exception as error:
                run.close()  # which lets the other ranks go
                if isinstance(error, PipeschedError) or is_lost(error):
                    raise
                raise failure_of(error, hint=hint_for(error, job.source)) from error
            part = sum(float(loss) * (shares[one] if shares else 1) for one, loss in found.items())
            total = torch.tensor(part, dtype=torch.float64, device=device)
            dist.all_reduce(total)
            losses.append(float(total) / (1 if shares else count))
            if rank == 0:
                tell(step, losses[-1])
    reports: list[Any] = [None] * problem.devices
    dist.all_gather_object(reports, run.report())
    run.close()
    return None if rank else ended(losses, reports, "done")


class Batches:
    """What a rank trains on in a step, and the loss: by default that of what it takes first."""

    def __init__(self, job: TrainRequest, device: Any) -> None:
        self._job, self.device = job, device
        self._usual: Callable[..., Any] | None = None
        self.inputs: Any = None
        self.targets: Any = None
        self.loss: Callable[..., Any] = lambda *given: self._usual and self._usual(*given)  # known after `take`
        if job.source.loss is not None:
            self.loss = job.source.loss_for(None)

    def take(self, step: int) -> None:
        """Take what a step trains on; random numbers are taken once."""
        source, count = self._job.source, self._job.schedule.problem.microbatches
        if self.inputs is None or source.data is not None:
            batch = source.microbatches(step, count, self._job.seed)
            self._usual = self._usual or source.loss_for(batch.inputs)
            self.inputs, self.targets = moved((batch.inputs, batch.targets), self.device)


def ended(losses: list[float], ranks: list[Any], stopped_by: str, reason: str | None = None) -> dict[str, Any]:
    """Return the document of a training run; a loss that is no number is null."""
    numbers = [loss if isfinite(loss) else None for loss in losses]
    result = {"losses": numbers, "ranks": ranks, "stopped_by": stopped_by, "reason": reason}
    return {"format": "pipesched.training", "version": 1, **result}


@contextmanager
def _profiled(folder: Path, rank: int, ranks: int, device: Any) -> Iterator[None]:
    """Write PyTorch's profile of what runs inside as `rank<r>.json`, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with torch.profiler.profile() as profiler:
        if device.type == CPU:
            profiler.add_metadata_json("pipesched", json.dumps({"ranks": ranks, "cores": cores()}))
        yield
    profiler.export_chrome_trace(str(folder / f".rank{rank}"))
    Path(folder, f".rank{rank}").replace(folder / f"rank{rank}.json")

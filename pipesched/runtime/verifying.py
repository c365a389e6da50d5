"""One step by a plan and one without a pipeline: how far losses and the gradients of every parameter are apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from math import isfinite
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from pipesched.checks import require_whole
from pipesched.errors import ConfigError
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule
from pipesched.results.outcome import Outcome
from pipesched.runtime import model_source
from pipesched.runtime.devices import kind_of_device, take_device
from pipesched.runtime.run import Runtime
from pipesched.runtime.training import Batches, TrainRequest, failing, run_ranks, trainable
from pipesched.runtime.training_data import Microbatches, Named, data_source
from pipesched.runtime.unpipelined import APART_AT_MOST, apart, train_unpipelined
from pipesched.runtime.weight_copies import tied_weights

Found = tuple[float, dict[tuple[int, str], float]]  # of losses, and of each parameter by its stage and name


def verify(
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
    seed: int = 0,
) -> dict[str, Any] | None:
    """Train one step by a schedule and one without a pipeline, from the same weights, and compare.

    Each rank runs its stages by the schedule, and the whole model beside it.

    Args:
        schedule: As for `train`, like all others.

    Returns:
        An object that JSON holds. `losses` and, of each of the `parameters`, `apart` are the largest |a - b| /
        max(1, |b|) of their elements, b without a pipeline (null: no number). `passed` says that none exceeds `limit`:
        1e-4 for weights of 32 bits, 1e-9 for those of 64. None on all ranks of torchrun but the first.

    Raises:
        ConfigError: As for `train`, and for weights of fewer bits.
        InvalidSchedule: For a schedule that breaks rules.
        RankFailed: For what a rank, or the model, the data or the loss raised.
    """
    require_whole(seed, "seed")
    source = data_source(data, loss, shape, dtype, vocab, usual=model_source.SHAPE)
    checked, source = trainable(schedule, problem, model, source, rows)
    types = {str(weight.dtype)[6:] for piece in model_source.pieces_of(model) for weight in piece.parameters()}
    for other in sorted(types - APART_AT_MOST.keys()):
        raise ConfigError(f"has weights of {other}; gradients are compared in {' or '.join(APART_AT_MOST)}", "model")
    limit = max((APART_AT_MOST[one] for one in types), default=APART_AT_MOST["float32"])
    found = run_ranks(verify_rank, TrainRequest(checked, model, source, 1, 0.0, seed, None))
    if found is None:
        return None
    losses, gradients = found
    finite = {key: one if isfinite(one) else None for key, one in gradients.items()}
    return {
        "format": "pipesched.verification",
        "version": 1,
        "passed": max([losses, *gradients.values()]) <= limit,
        "limit": limit,
        "losses": losses if isfinite(losses) else None,
        "parameters": [{"stage": stage, "parameter": name, "apart": one} for (stage, name), one in finite.items()],
    }


def verify_rank(local_rank: int, job: TrainRequest, _: Callable[..., Any]) -> Found | None:
    """Compare the stages of this rank; the first one returns what all found: of losses, and of each parameter."""
    device, rank, problem = take_device(local_rank, kind_of_device()), dist.get_rank(), job.schedule.problem
    whole = model_source.joined(model_source.pieces_of(job.model), problem)
    states = [[piece.state_dict() for piece in whole]]
    dist.broadcast_object_list(states)  # a model may draw its weights, on each rank others
    for piece, state in zip(whole, states[0], strict=True):
        piece.load_state_dict(state)
    pieces, whole = ([piece.to(device) for piece in made] for made in (deepcopy(whole), whole))
    placement = problem.settled_placement
    mine = {stage: pieces[stage] for stage in (placement.stages_on(rank) if rank < problem.devices else ())}
    batches = Batches(job, device)
    run = Runtime(job.schedule, mine, batches.loss, tied=tied_weights(pieces), seed=job.seed)
    with failing(run, job.source):
        batches.take(0)
        given = Microbatches(batches.inputs, batches.targets, job.shares)
        found = run.step(*given)
        right = train_unpipelined(whole, given, loss=batches.loss, seed=job.seed)
    run.close()
    due = [one for one in range(len(right)) if placement.device(problem.stages - 1, one, len(right)) == rank]
    losses = max([apart(found.get(one, torch.inf), right[one]) for one in due], default=0.0)
    gradients = {}
    for stage, piece in mine.items():
        for (name, ours), theirs in zip(piece.named_parameters(), whole[stage].parameters(), strict=True):
            gradients[stage, name] = apart(ours.grad, theirs.grad)
    every: list[Any] = [None] * problem.devices
    dist.all_gather_object(every, (losses, gradients))
    for _, theirs in every:  # of a stage with two copies two ranks have its parameters
        gradients |= {key: max(most, gradients.get(key, 0.0)) for key, most in theirs.items()}
    return None if rank else (max(losses for losses, _ in every), dict(sorted(gradients.items())))

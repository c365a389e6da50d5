"""One step by a plan and one without a pipeline: how far losses and the gradients of every parameter are apart."""

from __future__ import annotations

from copy import deepcopy
from math import isfinite
from typing import Any

import torch
import torch.distributed as dist

from pipesched.errors import ConfigError
from pipesched.runtime import model_source
from pipesched.runtime.run import Runtime
from pipesched.runtime.training_data import Microbatches
from pipesched.runtime.unpipelined import APART_AT_MOST, apart, train_unpipelined
from pipesched.runtime.weight_copies import tied_weights


def verify_rank(rank: int, job: Any, batches: Any) -> dict[str, Any] | None:
    """Compare the stages of this rank, of a TrainRequest; the first one returns the document. Raises ConfigError."""
    problem, placement = job.schedule.problem, job.schedule.problem.settled_placement
    whole = model_source.joined(model_source.pieces_of(job.model), problem)
    types = {str(weight.dtype).removeprefix("torch.") for piece in whole for weight in piece.parameters()}
    for few in sorted(types - APART_AT_MOST.keys()):
        raise ConfigError(f"has weights of {few}; gradients are compared in {' or '.join(APART_AT_MOST)}", "model")
    states = [[piece.state_dict() for piece in whole]]
    dist.broadcast_object_list(states)  # a model may draw its weights, on each rank others
    for piece, state in zip(whole, states[0], strict=True):
        piece.load_state_dict(state)
    pieces, whole = ([piece.to(batches.device) for piece in made] for made in (deepcopy(whole), whole))
    mine = {stage: pieces[stage] for stage in (placement.stages_on(rank) if rank < problem.devices else ())}
    run = Runtime(job.schedule, mine, batches.loss, tied=tied_weights(pieces), seed=job.seed)
    batches.take(0)
    given = Microbatches(batches.inputs, batches.targets, job.shares)
    found = run.step(*given)
    right = train_unpipelined(whole, given, loss=batches.loss, seed=job.seed)
    run.close()
    due = [one for one in range(len(right)) if placement.device(problem.stages - 1, one, len(right)) == rank]
    most = {(-1, "losses"): max([apart(found.get(one, torch.inf), right[one]) for one in due], default=0.0)}
    for stage, piece in mine.items():
        for (name, ours), theirs in zip(piece.named_parameters(), whole[stage].parameters(), strict=True):
            most[stage, name] = apart(ours.grad, theirs.grad)
    every: list[Any] = [None] * problem.devices
    dist.all_gather_object(every, most)
    for one in every:  # of a stage with two copies two ranks have its parameters
        most |= {key: max(value, most.get(key, 0.0)) for key, value in one.items()}
    limit = max((APART_AT_MOST[one] for one in types), default=APART_AT_MOST["float32"])
    passed = max(most.values()) <= limit
    finite = {key: value if isfinite(value) else None for key, value in sorted(most.items(), key=lambda one: -one[1])}
    losses = finite.pop((-1, "losses"))
    parameters = [{"stage": stage, "parameter": name, "apart": value} for (stage, name), value in finite.items()]
    content = {"passed": passed, "limit": limit, "losses": losses, "parameters": parameters}
    return None if rank else {"format": "pipesched.verification", "version": 1, **content}

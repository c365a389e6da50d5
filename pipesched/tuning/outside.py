"""What lies outside what was measured: points there that are faster in the estimate, and what to measure for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

from pipesched.core.clock import Clock
from pipesched.estimation.trust.answers import OutsideField
from pipesched.estimation.trust.facts import RunFacts
from pipesched.estimation.trust.inside import fields_outside
from pipesched.tuning.measured_part import facts_of_point
from pipesched.tuning.result import Unmeasured
from pipesched.tuning.search import SpaceSearch
from pipesched.tuning.space import Layout, Space
from pipesched.tuning.trial import Trial

MOST_SHOWN = 3


def faster_outside(search: SpaceSearch, rate: float, executor: Executor | None, clock: Clock) -> list[Trial]:
    """Return the best points outside what was measured with more than a rate, at most three, one a layout.

    What is simulated for them counts nowhere, but a journal knows it.
    """
    if not search.outside or clock.is_over:
        return []

    def note(one: object) -> None:
        if isinstance(one, Trial):
            search.note(one)

    points = [(one.layout, one.algorithms) for one in search.outside]
    other = SpaceSearch(search.space, search.known, note, lambda _: search.report("beyond"), points=points, least=rate)
    other.run(executor, clock)
    best: dict[Layout, Trial] = {}
    for trial in other.fitting():
        if trial.rate > rate:
            best.setdefault(trial.point.layout.in_one_chunk, trial)
    return [*best.values()][:MOST_SHOWN]


def unmeasured(space: Space, trial: Trial) -> Unmeasured:
    """Return a point with the fields that lie outside, and what would have to be measured to believe it."""
    facts = facts_of_point(space, *trial.point)
    outside = fields_outside(facts)
    return Unmeasured(trial, outside, _sentence(facts, outside, trial))


def _sentence(facts: RunFacts, outside: Sequence[OutsideField], trial: Trial) -> str:
    ways = _ways(facts)
    said = list(dict.fromkeys(ways[one.field] for one in outside))
    nearest = trial.trust.evidence.nearest if trial.trust is not None else ()
    known = f"; nearest: {nearest[0].run}" if nearest else ""
    return f"a step of this model {' and '.join(said)}{known}"


def _ways(facts: RunFacts) -> Mapping[str, str]:
    """Return how a run is described where a field of it lies outside what was measured."""
    tokens = f"{facts.sequence // facts.context:,} tokens a rank"
    return {
        "hardware": f"on {facts.gpu}",
        "gpus": f"on at least half of {facts.gpus:,} GPUs",
        "tensor": f"with tensor {facts.tensor} for a hidden size of {facts.hidden:,}",
        "pipeline": f"with pipeline {facts.pipeline}",
        "chunks": f"with pipeline {facts.pipeline} x chunks {facts.chunks}",
        "context": f"with context {facts.context} at {tokens}",
        "expert": f"with expert {facts.expert}",
        "expert_tensor": f"with expert_tensor {facts.expert_tensor}",
        "micro": f"with {facts.tokens:,} tokens of a microbatch on a rank",
        "algorithm": f"under {facts.algorithm}",
        "shard": f"with shard {facts.shard}",
    }

"""Which fields of a run lie outside what was measured: the published runs of its kind, from any source, say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from pipesched.estimation.trust.answers import OutsideField
from pipesched.estimation.trust.evidence import evidence_base
from pipesched.estimation.trust.facts import RunFacts
from pipesched.pipeline.step import LEVELS

TOLERANCE = 2  # how many times the largest, or which part of the smallest, counts as measured
DEFAULTS = ("1f1b", "interleaved")  # measured with every kind of model, somewhere


class MeasuredRange:
    """What was measured of one kind of models, dense ones or those with experts; of rings of attention of any kind."""

    def __init__(self, every: Iterable[RunFacts], *, experts: bool) -> None:
        every = tuple(every)
        runs = [run for run in every if bool(run.experts) == experts]
        self.gpus = {run.gpu for run in runs}
        self.algorithms = {run.algorithm for run in runs if run.pipeline > 1}.union(DEFAULTS)
        self.rings = sorted({(run.context, run.sequence // run.context) for run in every if run.context > 1})
        fields = ("gpus", "tensor", "pipeline", "expert", "expert_tensor")
        self.largest = {field: max(getattr(run, field) for run in runs) for field in fields}
        self.levels = [level for level in LEVELS if level in {run.shard for run in runs}]
        self.stages = max(run.pipeline * run.chunks for run in runs)
        self.whole = max(run.hidden / run.tensor for run in runs)
        self.fewest_tokens = min(run.tokens for run in runs)

    def outside(self, facts: RunFacts) -> Iterator[OutsideField]:
        """Yield the fields of a run that lie outside; none where all are inside."""
        if facts.gpu not in self.gpus:
            yield OutsideField("hardware", facts.gpu, f"such models on {', '.join(sorted(self.gpus))}")
        yield from self._over("gpus", facts.gpus, TOLERANCE)
        yield from self._over("tensor", facts.tensor)
        if facts.hidden / facts.tensor > self.whole:
            each = f"{facts.hidden / facts.tensor:,.0f} of the hidden size on a rank"
            yield OutsideField("tensor", facts.tensor, f"at most {self.whole:,.0f}, not {each}")
        yield from self._over("pipeline", facts.pipeline, TOLERANCE)
        if facts.pipeline * facts.chunks > TOLERANCE * self.stages:
            yield OutsideField("chunks", facts.chunks, f"pipeline x chunks at most {self.stages:,}")
        if facts.context > 1 and not self._has_ring(facts):
            rings = ", ".join(f"{ranks} at {tokens:,} tokens a rank" for ranks, tokens in self.rings)
            yield OutsideField("context", facts.context, rings or "none")
        yield from self._over("expert", facts.expert)
        yield from self._over("expert_tensor", facts.expert_tensor)
        if TOLERANCE * facts.tokens < self.fewest_tokens:
            each = f"{facts.tokens:,} tokens of a microbatch on a rank"
            yield OutsideField("micro", facts.micro, f"at least {self.fewest_tokens:,}, not {each}")
        if facts.pipeline > 1 and facts.algorithm not in self.algorithms:
            yield OutsideField("algorithm", facts.algorithm, ", ".join(sorted(self.algorithms)))
        if facts.shard and facts.shard not in self.levels:
            yield OutsideField("shard", facts.shard, ", ".join(self.levels))

    def _over(self, field: str, value: int, times: int = 1) -> Iterator[OutsideField]:
        if value > times * self.largest[field]:
            yield OutsideField(field, value, f"at most {self.largest[field]:,}")

    def _has_ring(self, facts: RunFacts) -> bool:
        """Return whether some run had as large a ring, with at most twice as many tokens of a sequence a rank."""
        tokens = facts.sequence // facts.context
        return any(ranks >= facts.context and each <= TOLERANCE * tokens for ranks, each in self.rings)


@cache
def measured_range(experts: bool) -> MeasuredRange:
    """Return what was measured of models with or without experts, by the published runs of the package."""
    return MeasuredRange((run.compared.facts for run in evidence_base().runs), experts=experts)


def fields_outside(facts: RunFacts) -> tuple[OutsideField, ...]:
    """Return the fields of a run that lie outside what was measured, in the order of a config."""
    return tuple(measured_range(bool(facts.experts)).outside(facts))

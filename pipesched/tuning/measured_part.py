"""The part of a space that lies inside what was measured: for each layout, the algorithms inside."""

from __future__ import annotations

from pipesched.estimation.trust.facts import RunFacts, schedule_of, shape_of
from pipesched.estimation.trust.inside import measured_range
from pipesched.schedulers.registry import family
from pipesched.tuning.space import Layout, Space

USUAL = "1f1b"


class MeasuredPart:
    """Tells which points of a space lie inside what was measured, before anything else is known of them."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._range = measured_range(space.model.experts is not None)
        self._layouts: dict[Layout, RunFacts | None] = {}  # those in one chunk, whatever is recomputed
        self._algorithms: dict[tuple[int, int], tuple[str, ...]] = {}  # by devices, and chunks

    def algorithms(self, layout: Layout) -> tuple[str, ...]:
        """Return the algorithms under which a layout lies inside."""
        plain = layout._replace(chunks=1, recompute="none", shard_ranks=None)
        if plain not in self._layouts:
            facts = facts_of_point(self._space, plain, USUAL)
            self._layouts[plain] = facts if self._is_inside(facts) else None
        inside = self._layouts[plain]
        if inside is None:
            return ()
        stages = layout.pipeline, layout.chunks
        if stages not in self._algorithms:
            self._algorithms[stages] = tuple(
                name for name in self._space.algorithms if self._is_inside(_under(inside, name, layout.chunks))
            )
        return self._algorithms[stages]

    def _is_inside(self, facts: RunFacts) -> bool:
        return next(self._range.outside(facts), None) is None


def facts_of_point(space: Space, layout: Layout, algorithm: str) -> RunFacts:
    """Return the facts of a point, also of one whose sizes do not divide."""
    model, training = space.model, space.training
    facts = RunFacts(
        model=shape_of(model),
        hidden=model.hidden,
        experts=model.experts.count if model.experts else 0,
        latent=model.latent is not None,
        gpu=space.hardware.name,
        gpus=space.gpus,
        **layout.parallel,
        split=layout.tensor > 1 if space.sequence is None else space.sequence,
        sequence=space.tokens,
        micro=layout.micro,
        recompute="full" if isinstance(layout.recompute, int) else layout.recompute,
        tensor_overlap=training.tensor_overlap,
        algorithm="",
        shard=layout.shard or "",
    )
    return _under(facts, algorithm, layout.chunks)


def _under(facts: RunFacts, algorithm: str, chunks: int) -> RunFacts:
    """Return facts under an algorithm, with as many stages a device as that runs."""
    return facts._replace(algorithm=schedule_of(algorithm), chunks=family(algorithm).chunks_run(chunks))

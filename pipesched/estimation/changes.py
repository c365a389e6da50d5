"""Changes of a setup that need less memory: which of them fit, and what each costs in speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from pipesched.errors import PipeschedError
from pipesched.estimation.derived import budget_of
from pipesched.estimation.items import GB, Items
from pipesched.estimation.result import Estimate
from pipesched.estimation.setup import FULL, NONE, SELECTIVE, Parallel, Setup, TokenBatch, TrainingSetup
from pipesched.estimation.trust.evidence import evidence_base
from pipesched.estimation.trust.inside import memory_margin
from pipesched.pipeline.step import LEVELS

SUGGESTED = 3
MOST_PAIRED = 4  # changes to which another one is added
MOST_ROUNDS = 4  # changes that are added to a first one
Again = Callable[[Setup], Estimate]


class FittingChange(NamedTuple):
    """A change of a setup that fits: what it sets, by keys such as `parallel.tensor`, and the estimate with it."""

    values: Mapping[str, Any]
    estimate: Estimate

    @property
    def written(self) -> list[str]:
        """The keys and their values, as a config has them."""
        return [f"{key}: {_written(value)}" for key, value in self.values.items()]

    @property
    def text(self) -> str:
        """All of them as one text."""
        return " and ".join(self.written)

    @property
    def rate(self) -> float:
        """The tokens a second of a GPU."""
        return self.estimate.step.tokens_per_second_per_gpu

    @property
    def sure(self) -> bool:
        """Whether it fits also where it holds as much as the interval of its memory says."""
        return memory_margin(self.estimate, evidence_base().memory.high) >= 0


class MissingChange(NamedTuple):
    """A change of a setup that does not surely fit: the setup with it, and bytes of its fullest device, at least."""

    values: Mapping[str, Any]
    setup: Setup
    held: Fraction


def changes_that_fit(setup: Setup, again: Again, beside: Fraction = Fraction(0)) -> list[FittingChange]:
    """Return the changes with which a setup that does not fit does, at most SUGGESTED.

    Those that surely fit come first, then the fastest. One key changes where that is surely enough; where fewer than
    SUGGESTED are, two keys, and more where even these are not.
    `again` estimates a setup; `beside` are the bytes that each device holds beside the model.
    """
    found, others = _tried(setup, again, beside)
    rounds = MOST_ROUNDS if sum(change.sure for change in found) < SUGGESTED else 0
    while rounds and not (any(change.sure for change in found) and rounds < MOST_ROUNDS) and others:
        rounds -= 1
        tried = [_tried(first.setup, again, beside, first.values) for first in others[:MOST_PAIRED]]
        fitting = [change for more, _ in tried for change in more]
        found += [change for change in fitting if not any(_ends_with(change, one) for one in found)]
        others = sorted((miss for _, more in tried for miss in more), key=attrgetter("held"))
    best = {frozenset(change.written): change for change in sorted(found, key=lambda change: change.rate)}
    return sorted(best.values(), key=lambda change: (not change.sure, -change.rate))[:SUGGESTED]


def _ends_with(change: FittingChange, other: FittingChange) -> bool:
    """Return whether the last keys that a change sets are those of another one, with the same values."""
    return [*change.values.items()][-len(other.values) :] == [*other.values.items()]


def _both(before: Mapping[str, Any], key: str, value: Any) -> Mapping[str, Any]:
    """Return a change with one more key; if it sets that already, the second value counts."""
    return {**{name: known for name, known in before.items() if name != key}, key: value}


def _written(value: Any) -> str:
    """Return a value as a config has it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {entry}" for key, entry in value.items()) + "}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tried(
    setup: Setup, again: Again, beside: Fraction, before: Mapping[str, Any] = MappingProxyType({})
) -> tuple[list[FittingChange], list[MissingChange]]:
    """Return the changes of one key with which a setup fits, and those with which it surely does not, least first."""
    fitting: list[FittingChange] = []
    others: list[MissingChange] = []
    for key, change in CHANGES:
        try:
            if (changed := change(setup)) is None:
                continue
            items, both = Items(changed), _both(before, key, attrgetter(key)(changed))
            held = items.stage(0, len(items)).states / changed.parallel.pipeline + beside
            found = again(changed) if held <= budget_of(changed) * GB else None  # not cut where even these are too much
        except PipeschedError:
            continue
        fits = [FittingChange(both, found)] if found is not None and found.fits else []
        fitting += fits
        if not any(one.sure for one in fits):
            most = held if found is None else max(device.total for device in found.devices)
            others.append(MissingChange(both, changed, most))
    trained = [found.estimate.setup.training for found in fitting]
    if any(one.recompute == FULL and one.full_layers is None for one in trained):  # else fewer layers do not fit either
        fewest = _fewest_layers(setup, before, again)
        fitting += [] if fewest is None else [fewest]
    others.sort(key=attrgetter("held"))
    return fitting, others


def _fewest_layers(setup: Setup, before: Mapping[str, Any], again: Again) -> FittingChange | None:
    """Return the fewest layers of each stage whose full recompute is enough, if that is fewer than all."""
    if setup.training.recompute != NONE:
        return None
    low, high, best = 1, -(-setup.model.layers // setup.parallel.stages) - 1, None
    while low <= high:
        middle = (low + high) // 2
        training = replace(setup.training, recompute=FULL, full_layers=middle)
        try:
            found = again(replace(setup, training=training))
        except PipeschedError:
            return None
        change = FittingChange(_both(before, "training.recompute", {FULL: middle}), found)
        if found.fits and change.sure:
            best, high = change, middle - 1
        else:
            low = middle + 1
    return best


def _parallel(key: str, factor: float) -> Callable[[Setup], Setup | None]:
    """Return a function that multiplies a way of parallelism; with `gpus` the data-parallel ranks."""

    def change(setup: Setup) -> Setup | None:
        size = int(getattr(setup.parallel, key) * factor)
        if size < 1 or (key == "tensor" and size > setup.hardware.gpus_per_node):
            return None
        sizes: dict[str, Any] = {key: size}
        if key == "tensor" and setup.parallel.tensor == 1:
            sizes["sequence"] = True
        parallel: Parallel = replace(setup.parallel, **sizes)
        return replace(setup, parallel=parallel, training=replace(setup.training, layout=None))

    return change


def _training(**values: object) -> Callable[[Setup], Setup | None]:
    def change(setup: Setup) -> Setup | None:
        if all(getattr(setup.training, key) == value for key, value in values.items()):
            return None
        training: TrainingSetup = replace(setup.training, **values)  # type: ignore[arg-type]
        return replace(setup, training=training)

    return change


def _level(level: str) -> Callable[[Setup], Setup | None]:
    """Return a function that divides more among data-parallel ranks."""

    def change(setup: Setup) -> Setup | None:
        if setup.training.shard is None or setup.training.divides(level):
            return None
        return replace(setup, training=replace(setup.training, shard=level))

    return change


def _distributed(setup: Setup) -> Setup | None:
    return None if setup.training.shard is not None else _training(distributed_optimizer=True)(setup)


def _half_micro(setup: Setup) -> Setup | None:
    if setup.batch.micro % 2:
        return None
    batch: TokenBatch = replace(setup.batch, micro=setup.batch.micro // 2)
    return replace(setup, batch=batch)


def _selective(setup: Setup) -> Setup | None:
    if setup.training.recompute != NONE or setup.training.flash_attention:
        return None
    return _training(recompute=SELECTIVE)(setup)


def _sequence(setup: Setup) -> Setup | None:
    if setup.parallel.sequence or setup.parallel.tensor == 1:
        return None
    return replace(setup, parallel=replace(setup.parallel, sequence=True))


CHANGES: tuple[tuple[str, Callable[[Setup], Setup | None]], ...] = (
    *(
        (f"parallel.{key}", _parallel(key, 0.5 if key == "chunks" else 2))
        for key in ("tensor", "pipeline", "chunks", "context", "expert", "gpus")
    ),
    ("parallel.sequence", _sequence),
    ("batch.micro", _half_micro),
    ("training.recompute", _training(recompute=FULL, full_layers=None)),
    ("training.recompute", _selective),
    ("training.distributed_optimizer", _distributed),
    *(("training.shard", _level(level)) for level in LEVELS[1:]),
    ("training.gradients", _training(gradients="bf16")),
    ("training.fused_loss", _training(fused_loss=True)),
    ("training.flash_attention", _training(flash_attention=True)),
)

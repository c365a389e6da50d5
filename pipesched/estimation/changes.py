"""Changes of a setup that need less memory: `changes_that_fit`, and what each costs in speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from pipesched.errors import PipeschedError
from pipesched.estimation.derived import budget_of
from pipesched.estimation.hardware import BF16
from pipesched.estimation.items import GB, Items, Stage
from pipesched.estimation.result import Estimate
from pipesched.estimation.setup import FULL, NONE, SELECTIVE, Setup
from pipesched.estimation.trust.evidence import evidence_base
from pipesched.estimation.trust.inside import memory_margin
from pipesched.pipeline.plan.step import LEVELS

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
        found = []
        for key, value in self.values.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if isinstance(value, dict):
                text = "{" + ", ".join(f"{name}: {entry}" for name, entry in value.items()) + "}"
            found.append(f"{key}: {text}")
        return found

    @property
    def text(self) -> str:
        return " and ".join(self.written)

    @property
    def rate(self) -> float:
        return self.estimate.step.tokens_per_second_per_gpu

    @property
    def sure(self) -> bool:
        """Whether it fits also where it holds as much as the interval of its memory says."""
        return memory_margin(self.estimate, evidence_base().memory.high) >= 0


# A change of a setup that does not surely fit: bytes of its fullest device, at least, the setup with it, and the change
MissingChange = tuple[Fraction, Setup, Mapping[str, Any]]


def changes_that_fit(setup: Setup, again: Again, beside: Fraction = Fraction(0)) -> list[FittingChange]:
    """Return the changes with which a setup that does not fit does, at most SUGGESTED.

    Those that surely fit come first, then the fastest. One key changes where that is surely enough; where fewer than
    SUGGESTED are, two keys, and more where even these are not.
    `again` estimates a setup; `beside` are the bytes that each device holds beside the model.
    """
    found, others = _tried(setup, again, beside)
    rounds = MOST_ROUNDS if sum(change.sure for change in found) < SUGGESTED else 0
    while rounds and others and (rounds == MOST_ROUNDS or not any(change.sure for change in found)):  # one at least
        rounds -= 1
        tried = [_tried(changed, again, beside, values) for _, changed, values in others[:MOST_PAIRED]]
        fitting = [change for more, _ in tried for change in more]
        said = [[*one.values.items()] for one in found]  # what ends with all that another change sets says no more
        found += [one for one in fitting if not any([*one.values.items()][-len(ends) :] == ends for ends in said)]
        others = sorted((miss for _, more in tried for miss in more), key=itemgetter(0))
    best = {frozenset(change.written): change for change in sorted(found, key=lambda change: change.rate)}
    return sorted(best.values(), key=lambda change: (not change.sure, -change.rate))[:SUGGESTED]


def _both(before: Mapping[str, Any], key: str, value: Any) -> Mapping[str, Any]:
    """Return a change with one more key; if it sets that already, the second value counts."""
    return {**{name: known for name, known in before.items() if name != key}, key: value}


def _tried(
    setup: Setup, again: Again, beside: Fraction, before: Mapping[str, Any] = MappingProxyType({})
) -> tuple[list[FittingChange], list[MissingChange]]:
    """Return the changes of one key with which a setup fits, and those with which it surely does not, least first."""
    fitting, others = list[FittingChange](), list[MissingChange]()
    for key, sections in _changes(setup):
        try:
            parts = {name: replace(getattr(setup, name), **values) for name, values in sections.items()}
            changed: Setup = replace(setup, **parts)
            items, both = Items(changed), _both(before, key, attrgetter(key)(changed))
            held = Stage(items, 0, len(items)).states / changed.parallel.pipeline + beside
            found = again(changed) if held <= budget_of(changed) * GB else None  # not cut where even these are too much
        except PipeschedError:
            continue
        fits = [FittingChange(both, found)] if found is not None and found.fits else []
        fitting += fits
        if not any(one.sure for one in fits):
            most = held if found is None else max(device.total for device in found.devices)
            others.append((most, changed, both))
    trained = [found.estimate.setup.training for found in fitting]
    if any(one.recompute == FULL and one.full_layers is None for one in trained):  # else fewer layers do not fit either
        fewest = _fewest_layers(setup, before, again)
        fitting += [] if fewest is None else [fewest]
    others.sort(key=itemgetter(0))
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


def _changes(setup: Setup) -> Iterator[tuple[str, Mapping[str, Mapping[str, Any]]]]:
    """Yield each key that may be changed, and what that sets in its section and others; more `gpus` are more data."""
    parallel, training, micro = setup.parallel, setup.training, setup.batch.micro
    for key in ("tensor", "pipeline", "chunks", "context", "expert", "gpus"):
        size = int(getattr(parallel, key) * (0.5 if key == "chunks" else 2))
        more = {"sequence": True} if key == "tensor" and parallel.tensor == 1 else {}
        if size >= 1 and (key != "tensor" or size <= setup.hardware.gpus_per_node):
            yield f"parallel.{key}", {"parallel": {key: size, **more}, "training": {"layout": None}}
    is_full = training.recompute == FULL and training.full_layers is None
    rows: list[tuple[bool, str, dict[str, Any]]] = [
        (not parallel.sequence and parallel.tensor > 1, "parallel", {"sequence": True}),
        (micro % 2 == 0, "batch", {"micro": micro // 2}),
        (not is_full, "training", {"recompute": FULL, "full_layers": None}),
        (training.recompute == NONE and not training.flash_attention, "training", {"recompute": SELECTIVE}),
        (training.shard is None and not training.distributed_optimizer, "training", {"distributed_optimizer": True}),
        *((training.shard is not None and not training.divides(one), "training", {"shard": one}) for one in LEVELS[1:]),
        (training.gradients != BF16, "training", {"gradients": BF16}),
        (not training.fused_loss, "training", {"fused_loss": True}),
        (not training.flash_attention, "training", {"flash_attention": True}),
    ]
    for is_open, section, values in rows:
        if is_open:
            yield f"{section}.{next(iter(values))}", {section: values}

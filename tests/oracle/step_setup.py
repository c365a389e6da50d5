"""What a config says of a whole step, read a second time: gather, reduce, optimizer, sharding and side work.

As in `setup`, nothing of the package is imported and nothing is scaled to integers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from tests.oracle.replay import Op as Pass, slot_duration
from tests.oracle.setup import ZERO, Setup, at_speed, number, read_setup

LEVELS = ("none", "optimizer", "gradients", "weights")
WORKS = "FBIWR"  # what runs between an UNSHARD of its stage and its RESHARD
NETWORK = ("UNSHARD", "REDUCE_GRAD", "REDUCE_TIED")  # what occupies a network lane
KINDS = ("UNSHARD", "RESHARD", "REDUCE_GRAD", "REDUCE_TIED", "OPTIMIZER", *"FBIWROLEG")
TEXT = re.compile(rf"(\d+)({'|'.join(KINDS)})(?:(\d+)(?:\.(\d+))?)?")

Program = list[tuple[str, str | None]]  # of a device: network operations, and the slot behind which each is issued


class Op(NamedTuple):
    """One operation: stage (or side item), kind, and of those that are numbered microbatch (or turn) and slice."""

    stage: int
    kind: str
    number: int | None = None
    slice: int = 0

    @property
    def is_pass(self) -> bool:
        """Whether it is an operation of a pipeline without a step."""
        return self.kind in "FBIWROL"

    @property
    def as_pass(self) -> Pass:
        """The same as the replay of pipelines without a step has it."""
        assert self.number is not None
        return Pass(self.stage, self.kind, self.number, self.slice)


@dataclass(frozen=True)
class Item:
    """Side work: `forward` and `backward` (None: frozen) by microbatch."""

    forward: list[Fraction]
    backward: list[Fraction] | None
    into: int
    devices: list[int]
    p2p: Fraction
    activation: Fraction
    output: Fraction
    static: Fraction


@dataclass(frozen=True)
class Step:
    """A pipeline, and what its step has beside the passes. `ahead` is by device."""

    setup: Setup
    gather: list[Fraction] | None
    reduce: list[Fraction] | None
    optimizer: list[Fraction] | None
    tied: Fraction | None
    weights: list[Fraction]
    gradients: list[Fraction]
    states: list[Fraction]
    level: str
    ranks: int
    ahead: list[int]
    each: bool
    gathers_late: bool
    clip: bool
    side: list[Item]

    def from_level(self, level: str) -> bool:
        """Whether what `level` is named after is divided."""
        return LEVELS.index(self.level) >= LEVELS.index(level)

    @property
    def gathers(self) -> bool:
        """Whether there are UNSHARDs."""
        return self.gather is not None or self.level == "weights"

    @property
    def reduces(self) -> bool:
        """Whether there are REDUCE_GRADs."""
        return not self.setup.forward_only and (self.reduce is not None or self.from_level("gradients"))

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last stage."""
        return 0, self.setup.stages - 1

    @property
    def ties(self) -> bool:
        """Whether there is a REDUCE_TIED: first and last stage live on different devices."""
        first, last = (self.setup.placement[stage] for stage in self.ends)
        return self.tied is not None and first != last

    def duration(self, op: Op, device: int) -> Fraction:
        """How long an operation lasts on a device."""
        if op.is_pass:
            return slot_duration(self.setup, [op.as_pass], device)
        if op.kind == "UNSHARD":
            return ZERO if self.gather is None else self.gather[op.stage]
        if op.kind == "REDUCE_GRAD":
            return ZERO if self.reduce is None else self.reduce[op.stage]
        if op.kind == "REDUCE_TIED":
            assert self.tied is not None
            return self.tied
        if op.kind == "OPTIMIZER":
            assert self.optimizer is not None
            return at_speed(self.optimizer[op.stage], self.setup.speed[device])
        assert op.kind in "EG"
        assert op.number is not None
        times = self.side[op.stage].forward if op.kind == "E" else self.side[op.stage].backward
        assert times is not None
        return at_speed(times[op.number], self.setup.speed[device])

    def statics(self) -> list[Fraction]:
        """What stays on each device: of each stage and, divided from its level on, weights, gradients and states."""
        kept = self.setup.statics()
        sizes = {"weights": self.weights, "gradients": self.gradients, "optimizer": self.states}
        for level, by_stage in sizes.items():
            for stage, size in enumerate(by_stage):
                kept[self.setup.placement[stage]] += size / (self.ranks if self.from_level(level) else 1)
        for item in self.side:
            for device in item.devices:
                kept[device] += item.static
        return kept


@cache
def parse(text: str) -> Op:
    """The operation of a text."""
    found = TEXT.fullmatch(text)
    assert found, text
    stage, kind, numbered, part = found.groups()
    return Op(int(stage), kind, None if numbered is None else int(numbered), int(part or 0))


def parts(slot: str) -> list[str]:
    """The texts of the operations in a slot: one, or the forward and the backward of a pair."""
    if not slot.startswith("("):
        return [slot]
    assert slot.endswith(")OVERLAP_F_B"), slot
    return slot[1:].partition(")")[0].split(";")


def read_step(config: Mapping[str, Any]) -> Step:
    """The step that a config describes. `ahead: auto` is for `step_rule.best_ahead`; here it is 1."""
    setup = read_setup(config)

    def listed(key: str) -> list[Fraction] | None:
        return None if config.get(key) is None else by_count(config[key], setup.stages)

    given = config.get("shard")
    shard = given if isinstance(given, Mapping) else {} if given is None else {"level": given}
    level = shard.get("level", "none" if config.get("gather") is None else "optimizer")
    tied = config.get("tied")
    return Step(
        setup,
        gather=listed("gather"),
        reduce=listed("reduce"),
        optimizer=listed("optimizer"),
        tied=None if tied is None else number(tied),
        weights=listed("weights") or [ZERO] * setup.stages,
        gradients=listed("gradients") or [ZERO] * setup.stages,
        states=listed("states") or [ZERO] * setup.stages,
        level=level,
        ranks=shard.get("ranks", 1),
        ahead=_ahead(setup, shard.get("ahead", 3)),
        each=shard.get("reduce", "last") == "each",
        gathers_late=shard.get("gather", "ahead") == "each",
        clip=bool(config.get("clip")),
        side=[_item(setup, item) for item in config.get("side") or ()],
    )


def by_count(value: Any, count: int) -> list[Fraction]:
    """A number for all, or one each."""
    values: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value] * count
    assert len(values) in (count, 1)
    return [number(one) for one in values] * (count if len(values) < count else 1)


def _ahead(setup: Setup, value: Any) -> list[int]:
    if value == "full":
        return [max(setup.placement.count(device), 1) for device in range(setup.devices)]
    if isinstance(value, (list, tuple)):
        return [*value]
    return [1 if value == "auto" else value] * setup.devices


def _item(setup: Setup, given: Mapping[str, Any]) -> Item:
    devices, backward = given.get("devices", "all"), given.get("backward")
    return Item(
        forward=by_count(given["forward"], setup.microbatches),
        backward=None if backward is None else by_count(backward, setup.microbatches),
        into=given.get("into", 0),
        devices=[*range(setup.devices)] if devices == "all" else [*devices],
        **{key: number(given.get(key, 0)) for key in ("p2p", "activation", "output", "static")},
    )

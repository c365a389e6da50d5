"""What a config says, read a second time: how long each unit lasts and how much it holds, as fractions.

A unit is one slice of one microbatch. Nothing of the package is imported, and nothing is scaled to integers: the
numbers follow from the words of the config alone, which are the parameters of `make_problem` as plain values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Any

Table = list[list[Fraction]]  # [stage][microbatch], or of shares [stage][slice]

KEYS = {"forward": "F", "backward_input": "I", "backward_weight": "W"}
TABLES = ("forward", "backward", *list(KEYS)[1:], "recompute", "offload", "reload", "activation", "p2p")
ZERO, ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True)
class Setup:
    """A pipeline in numbers: the times of F, I, W, R, O and L and the activations as in the config, without factors.

    `shares` are the parts of F, I and W that slices have; `sizes` the factors by microbatch. B has a time of its own
    only where the config has it beside I and W, of whole microbatches.
    """

    devices: int
    stages: int
    microbatches: int
    tokens: list[Fraction]
    shares: dict[str, Table]
    overhead: Fraction
    placement: list[int]
    mirrored: bool
    forward_only: bool
    times: dict[str, Table]
    overlap: list[Fraction] | None
    p2p: Table
    sizes: dict[str, list[Fraction]]
    speed: list[Fraction]
    links: Table
    activation: Table
    retain: list[Fraction]
    checkpoint: list[Fraction]
    kv: Fraction
    static: list[Fraction]
    budget: list[Fraction] | None

    @property
    def slices(self) -> int:
        """In how many slices each microbatch is cut."""
        return len(self.tokens)

    @property
    def units(self) -> list[tuple[int, int]]:
        """Every (microbatch, slice), in the order of the numbers."""
        return [(mb, part) for mb in range(self.microbatches) for part in range(self.slices)]

    def homes(self, stage: int) -> set[int]:
        """The devices that hold a stage: two where the placement is mirrored."""
        home = self.placement[stage]
        return {home, self.devices - 1 - home} if self.mirrored else {home}

    def device(self, stage: int, microbatch: int) -> int:
        """Where a stage of a microbatch runs, of those fed in the order of their numbers."""
        home = self.placement[stage]
        return self.devices - 1 - home if self.mirrored and microbatch >= self.microbatches // 2 else home

    def duration(self, kind: str, stage: int, unit: tuple[int, int], device: int) -> Fraction:
        """How long one operation lasts on a device: the share of its slice at the device's speed, and the overhead."""
        mb, part = unit
        if kind in "OL":
            return self.times[kind][stage][mb] * self.sizes["activation"][mb]
        if kind == "R":
            return at_speed(self.times[kind][stage][mb] * self.sizes["work"][mb], self.speed[device])
        halves = "IW" if kind == "B" and "B" not in self.times else kind
        shares = {**self.shares, "B": self.shares["I"]}
        time = sum((self.times[half][stage][mb] * shares[half][stage][part] for half in halves), ZERO)
        return at_speed(time * self.sizes["work"][mb], self.speed[device]) + self.overhead

    def held(self, stage: int, unit: tuple[int, int], share: Fraction = ONE) -> Fraction:
        """What a unit holds on a stage: its activation, or a share of it."""
        mb, part = unit
        return self.activation[stage][mb] * self.sizes["activation"][mb] * self.tokens[part] * share

    def latency(self, stages: tuple[int, int], unit: tuple[int, int], here: int, there: int) -> Fraction:
        """How long what passes between two stages takes from device to device; nothing inside one."""
        if here == there:
            return ZERO
        mb, part = unit
        whole = self.p2p[min(stages)][mb] + self.links[here][there]
        return whole * self.sizes["message"][mb] * self.tokens[part]

    def statics(self) -> list[Fraction]:
        """The static memory of each device: of a mirrored placement that of both copies."""
        last = self.devices - 1
        copies = [self.placement, [last - home for home in self.placement]] if self.mirrored else [self.placement]
        return [
            sum((size for copy in copies for size, home in zip(self.static, copy, strict=True) if home == device), ZERO)
            for device in range(self.devices)
        ]


def read_setup(config: Mapping[str, Any]) -> Setup:
    """The setup that a config describes."""
    p = config["devices"]
    s = config.get("stages", p)
    m = config.get("microbatches") or _length_of_lists(config) or 2 * p
    placement, mirrored = _placement(config.get("placement", "linear"), p, s)
    tokens, shares, overhead = _slices(config.get("slices", 1), s)
    times = _works(config, s, m)
    if config.get("backward") is not None and config.get("backward_input") is not None:
        times["B"] = table_of(config["backward"], s, m, [])
    times["R"] = table_of(config.get("recompute"), s, m, times["F"])
    times["O"] = table_of(config.get("offload"), s, m, [[ZERO] * m] * s)
    times["L"] = table_of(config.get("reload"), s, m, times["O"])
    overlap, budget = config.get("overlap"), config.get("budget")
    return Setup(
        p, s, m, tokens, shares, overhead, placement, mirrored,
        forward_only=config.get("mode", "train") == "forward",
        times=times,
        overlap=None if overlap is None else _listed(overlap, s),
        p2p=table_of(config.get("p2p", 0), s - 1, m, []),
        sizes={key: _listed(config.get("sizes", {}).get(key, 1), m) for key in ("work", "activation", "message")},
        speed=_speeds(config.get("speed", 1), p),
        links=[_listed(row, p) for row in config.get("links") or [[0] * p] * p],
        activation=table_of(config.get("activation"), s, m, [[Fraction(p, s)] * m] * s),
        retain=_listed(config.get("retain", 1), s),
        checkpoint=_listed(config.get("checkpoint", 0), s),
        kv=number(config.get("kv", 0)),
        static=_listed(config.get("static") or 0, s),
        budget=None if budget is None else _listed(budget, p),
    )  # fmt: skip


def fused(setup: Setup, stages: int, placement: Sequence[int], *, mirrored: bool = False) -> Setup:
    """The same model as so many contiguous groups of stages: what they cost and hold adds up, entry by entry.

    Parts of an activation and of work, one for all microbatches, are means: by the activations, and by the times.
    """
    size = setup.stages // stages
    assert size * stages == setup.stages

    def groups(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
        return (values[first : first + size] for first in range(0, setup.stages, size))

    def added(table: Table) -> Table:
        return [[sum(column, ZERO) for column in zip(*group, strict=True)] for group in groups(table)]

    def means(values: Sequence[Fraction], table: Table) -> list[Fraction]:
        weights = [sum(row, ZERO) for row in table]
        return [*map(_mean, groups(values), groups(weights))]

    shares = {}
    for kind, rows in setup.shares.items():
        columns = [means(column, setup.times[kind]) for column in zip(*rows, strict=True)]
        shares[kind] = [[*row] for row in zip(*columns, strict=True)]
    return replace(
        setup, stages=stages, placement=[*placement], mirrored=mirrored, shares=shares,
        times={kind: added(table) for kind, table in setup.times.items()},
        overlap=None if setup.overlap is None else [sum(group, ZERO) for group in groups(setup.overlap)],
        p2p=setup.p2p[size - 1 :: size], activation=added(setup.activation),
        retain=means(setup.retain, setup.activation), checkpoint=means(setup.checkpoint, setup.activation),
        static=[sum(group, ZERO) for group in groups(setup.static)],
    )  # fmt: skip


def _mean(values: Sequence[Fraction], weights: Sequence[Fraction]) -> Fraction:
    """The mean by weights, or where those are all zero the plain one."""
    weights = weights if any(weights) else [ONE] * len(values)
    return sum((value * weight for value, weight in zip(values, weights, strict=True)), ZERO) / sum(weights)


def number(value: Any) -> Fraction:
    """The value of a number; a float stands for the decimal that it is written as."""
    return value if isinstance(value, Fraction) else Fraction(str(value))


def at_speed(cost: Fraction, speed: Fraction) -> Fraction:
    """A cost on a device of a speed: as it is where that is 1, else rounded half up to nine significant digits."""
    if speed == 1 or not cost:
        return cost
    time, unit = cost / speed, ONE
    while time < unit * 10**8:
        unit /= 10
    while time >= unit * 10**9:
        unit *= 10
    return (time / unit + Fraction(1, 2)).__floor__() * unit


def table_of(value: Any, stages: int, microbatches: int, default: Table) -> Table:
    """A number for all, one a stage, or of each stage one for each microbatch."""
    if value is None:
        return default
    rows = value if isinstance(value, (list, tuple)) else [value] * stages
    assert len(rows) == stages
    return [_listed(row, microbatches) for row in rows]


def _listed(value: Any, count: int) -> list[Fraction]:
    values = [*value] if isinstance(value, (list, tuple)) else [value] * count
    assert len(values) == count
    return [number(one) for one in values]


def _speeds(value: Any, devices: int) -> list[Fraction]:
    if isinstance(value, Mapping):
        return [number(value.get(device, 1)) for device in range(devices)]
    return _listed(value, devices)


def _length_of_lists(config: Mapping[str, Any]) -> int | None:
    """How many microbatches the first list of one for each of them has."""
    rows = [row for key in TABLES if isinstance(config.get(key), (list, tuple)) for row in config[key]]
    rows += config.get("sizes", {}).values()
    return next((len(row) for row in rows if isinstance(row, (list, tuple))), None)


def _placement(value: Any, devices: int, stages: int) -> tuple[list[int], bool]:
    """The device of each stage, and whether a second copy runs the other way."""
    if not isinstance(value, str):
        is_both = isinstance(value[0], (list, tuple))
        return [*value[0]] if is_both else [*value], is_both
    down = [*range(devices)]
    if value in ("v", "wave") or (value == "bidirectional" and stages > devices):
        return [*down, *down[::-1]] * (stages // (2 * devices)), value == "bidirectional"
    if value == "loop":
        return [stage % devices for stage in range(stages)], False
    assert value in ("auto", "linear", "bidirectional")
    each, more = divmod(stages, devices)
    return [device for device in down for _ in range(each + (device < more))], value == "bidirectional"


def _works(config: Mapping[str, Any], stages: int, microbatches: int) -> dict[str, Table]:
    """The time of F, I and W of every stage and microbatch: given halves, or half of a backward of twice forward."""

    def given(key: str, default: Table) -> Table:
        return table_of(config.get(key), stages, microbatches, default)

    forward = given("forward", [[ONE] * microbatches] * stages)
    half = forward if config.get("backward") is None else [[time / 2 for time in row] for row in given("backward", [])]
    return {"F": forward, "I": given("backward_input", half), "W": given("backward_weight", half)}


def _slices(given: Any, stages: int) -> tuple[list[Fraction], dict[str, Table], Fraction]:
    """The tokens of each slice, what part of F, I and W it is on each stage, and the overhead."""
    config = given if isinstance(given, Mapping) else {"count": given}
    n, attention = config.get("count", 1), number(config.get("attention", 0))
    tokens = config.get("tokens", "equal")
    work: Any = config.get("work")
    if isinstance(tokens, str):
        cuts = _cuts_of_equal_work(n, attention) if tokens == "work" else [Fraction(cut, n) for cut in range(n + 1)]
        lengths = [after - before for before, after in pairwise(cuts)]
    else:
        lengths = [number(one) for one in tokens]
        cuts = [sum(lengths[:cut], ZERO) for cut in range(n + 1)]
    if work is None:
        work = [_causal(v, attention) - _causal(u, attention) for u, v in pairwise(cuts)]
        work = [Fraction(1, n)] * n if tokens == "work" else work
    by_key = work if isinstance(work, Mapping) else dict.fromkeys(KEYS, work)
    shares = {kind: _rows_of_shares(by_key[key], stages) for key, kind in KEYS.items()}
    return lengths, shares, number(config.get("overhead", 0))


def _causal(length: Fraction, attention: Fraction) -> Fraction:
    """The part of the work that the first tokens of a sequence are, up to a part of its length."""
    return (1 - attention) * length + attention * length**2


def _cuts_of_equal_work(count: int, attention: Fraction) -> list[Fraction]:
    """Where to cut a sequence so that every slice is as much work, to six decimals."""
    if not attention:
        return [Fraction(cut, count) for cut in range(count + 1)]
    cuts = []
    with localcontext() as context:
        context.prec = 60
        a, rest = (Decimal(one.numerator) / one.denominator for one in (attention, 1 - attention))
        for cut in range(count + 1):
            root = (rest**2 + 4 * a * cut / count).sqrt()
            cuts.append(Fraction(((root - rest) / (2 * a)).quantize(Decimal("0.000001"))))
    return cuts


def _rows_of_shares(value: Sequence[Any], stages: int) -> Table:
    nested = isinstance(value[0], (list, tuple))
    return [[number(one) for one in row] for row in (value if nested else [value] * stages)]

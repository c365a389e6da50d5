"""Random configs of microbatches that differ, as plain values: for the package and for the second replay alike."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

from hypothesis import assume, strategies as st

from tests.oracle.replay import Op, name, needs
from tests.oracle.setup import Setup, read_setup

Config = dict[str, Any]

SPEEDS = [1, 2, Decimal("0.5"), Decimal("0.8"), Decimal("0.7"), 3]
PLACEMENTS = ("linear", "loop", "v", "bidirectional", "two-v", "list")
RETAINS = [0, 1, Decimal("0.5"), Decimal("0.3"), Decimal("1.5")]


def amounts(least: int = 0, most: int = 9) -> st.SearchStrategy[int | Decimal]:
    """A number as users write it: whole, or with a decimal."""
    return st.one_of(
        st.integers(least, most), st.decimals(least, most, places=1, allow_nan=False, allow_infinity=False)
    )


def factors(least: int = 0) -> st.SearchStrategy[int | Decimal]:
    """A factor of a microbatch."""
    few = [1, 2, 3, Decimal("0.5"), Decimal("1.25"), Decimal("0.3")]
    return st.sampled_from(few if least else [*few, 0])


@st.composite
def configs(
    draw: st.DrawFn,
    placements: Sequence[str | None],
    *,
    most_devices: int = 4,
    most_microbatches: int = 5,
    most_chunks: int = 2,
    least: int = 0,
    slices: bool = False,
    forward_only: bool = False,
    saving: bool = False,
    pairs: bool = False,
) -> Config:
    """A pipeline of a few stages a device, on one of the placements (None: the algorithm's own).

    `least` is the smallest duration; `slices` cuts microbatches, `saving` adds what offload and recompute cost. With
    `pairs` they last `overlap`, and microbatches are alike but for their memory and messages. `two-v` are two copies,
    each a V.
    """
    p = draw(st.integers(1, most_devices))
    placement = draw(st.sampled_from(placements))
    chunks = {"bidirectional": 1, "v": 2, "two-v": 2}.get(placement or "") or draw(st.integers(1, most_chunks))
    s, m = p * chunks, draw(st.integers(1, most_microbatches))
    times = columns(amounts(least), s, 0 if pairs else m)
    config: Config = {"devices": p, "stages": s, "microbatches": m, "forward": draw(times)}
    if placement is not None:
        config["placement"] = draw(lists_of_devices(p, s)) if placement == "list" else placement
        config["placement"] = "bidirectional" if placement == "two-v" else config["placement"]
    if forward_only:
        config["mode"] = "forward"
    elif draw(st.booleans()):
        config |= {key: draw(times) for key in ("backward_input", "backward_weight")}
    elif draw(st.booleans()):
        config["backward"] = draw(times)
    rows = {"activation": least, "message": 0} | ({} if pairs else {"work": least})
    sizes = {key: st.lists(factors(most), min_size=m, max_size=m) for key, most in rows.items()}
    config["sizes"] = draw(st.fixed_dictionaries({}, optional=sizes))
    if slices:
        config["slices"] = draw(sliced(s))
    if saving:
        config |= draw(savings(s, m))
    if pairs:
        config["overlap"] = draw(columns(amounts(least, 20), s, 0))
    return config | draw(memories(s, m, least)) | draw(edges(p, s, m))


@st.composite
def savings(draw: st.DrawFn, stages: int, microbatches: int) -> Config:
    """What it costs to run forwards again, and to move activations to host memory and back."""
    times = columns(amounts(), stages, microbatches)
    config = {key: draw(times) for key in ("recompute", "reload") if draw(st.booleans())}
    config["checkpoint"] = draw(columns(st.sampled_from([0, 1, Decimal("0.5"), Decimal("0.1")]), stages, 0))
    return config | {"offload": draw(times), "lanes": draw(st.sampled_from(["device", "pair"]))}


@st.composite
def small_configs(draw: st.DrawFn, *, slices: bool = False, forward_only: bool = False) -> Config:
    """A pipeline of few operations, with a budget between one microbatch a device and all of them, or without one."""
    kinds = {"slices": slices, "forward_only": forward_only}
    config = draw(configs(PLACEMENTS, most_devices=3, most_microbatches=3, least=1, **kinds))
    setup = read_setup(config)
    letters = 1 if forward_only else 3 if "backward_input" in config else 2
    assume(setup.stages * len(setup.units) * letters <= 18)
    share = draw(st.sampled_from([None, Fraction(0), Fraction(1, 4), Fraction(1, 2)]))
    if share is None:
        return config
    budget = setup.statics()
    more = 1 + setup.kv + max(max(setup.retain) - 1, Fraction(0))
    for stage, sizes in enumerate(setup.activation):
        row = [size * factor for size, factor in zip(sizes, setup.sizes["activation"], strict=True)]
        for device in setup.homes(stage):
            budget[device] += more * (max(row) + share * (sum(row) - max(row)))
    return config | {"budget": budget}


@st.composite
def lists_of_devices(draw: st.DrawFn, devices: int, stages: int) -> list[int]:
    """A placement of its own: any device of each stage, and every device has one."""
    more = draw(st.lists(st.integers(0, devices - 1), min_size=stages - devices, max_size=stages - devices))
    return draw(st.permutations([*range(devices), *more]))


@st.composite
def memories(draw: st.DrawFn, stages: int, microbatches: int, least: int) -> Config:
    """What activations, their gradients of keys and values, and weights take."""
    config = {
        "kv": draw(st.sampled_from([0, Decimal("0.25"), Decimal("0.1"), 1])),
        "retain": draw(columns(st.sampled_from(RETAINS), stages, 0)),
        "static": draw(st.sampled_from([0, 1, Decimal("0.5")])),
    }
    if draw(st.booleans()):
        config["activation"] = draw(columns(amounts(least, 5), stages, microbatches))
    return config


@st.composite
def edges(draw: st.DrawFn, devices: int, stages: int, microbatches: int) -> Config:
    """Latencies of boundaries and links, and speeds."""
    config = {"p2p": draw(columns(amounts(0, 4), stages - 1, microbatches))}
    if draw(st.booleans()):
        config["speed"] = draw(st.lists(st.sampled_from(SPEEDS), min_size=devices, max_size=devices))
    if draw(st.booleans()):
        row = st.lists(amounts(0, 4), min_size=devices, max_size=devices)
        links = draw(st.lists(row, min_size=devices, max_size=devices))
        config["links"] = [
            [0 if here == there else late for there, late in enumerate(row)] for here, row in enumerate(links)
        ]
    return config


@st.composite
def columns(draw: st.DrawFn, values: st.SearchStrategy[Any], count: int, microbatches: int) -> Any:
    """A number for all, one a stage, or of some stages one for each microbatch (none where there are 0)."""
    shape = draw(st.sampled_from(["number", "list", "table"] if microbatches else ["number", "list"]))
    if shape == "number" or not count:
        return draw(values)
    each = st.one_of(values, st.lists(values, min_size=microbatches, max_size=microbatches))
    return draw(st.lists(each if shape == "table" else values, min_size=count, max_size=count))


@st.composite
def sliced(draw: st.DrawFn, stages: int) -> Any:
    """A number of slices, or how microbatches are cut: by attention, by given tokens, or by given parts of the work."""
    n = draw(st.integers(1, 4))
    if draw(st.booleans()):
        return n
    cut: Config = {"count": n}
    tokens = draw(st.sampled_from(["equal", "work", "list"]))
    cut["tokens"] = draw(shares(n)) if tokens == "list" else tokens
    if tokens == "work" or draw(st.booleans()):
        cut["attention"] = draw(st.sampled_from([0, Decimal("0.25"), Decimal("0.5"), 1]))
    else:
        cut["work"] = draw(st.one_of(shares(n), works(n, stages)))
    if draw(st.booleans()):
        cut["overhead"] = draw(amounts(0, 2))
    return cut


@st.composite
def shares(draw: st.DrawFn, count: int) -> list[Fraction]:
    """Parts of a whole, more than nothing each."""
    parts = draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
    return [Fraction(part, sum(parts)) for part in parts]


@st.composite
def works(draw: st.DrawFn, count: int, stages: int) -> Config:
    """Parts of the work by kind, of some kinds by stage."""
    rows = st.lists(shares(count), min_size=stages, max_size=stages)
    return {key: draw(st.one_of(shares(count), rows)) for key in ("forward", "backward_input", "backward_weight")}


def random_rows(setup: Setup, random: Random, *, split: float = 0, pair: float = 0) -> list[list[str]]:
    """A plan that keeps every rule, as texts: any operation that is ready next, again and again.

    `split` is the share of backwards that run as I and W, `pair` the chance that an F and a B that are ready on the
    same device run together.
    """
    kinds = [
        (stage, unit, "FIW" if random.random() < split else "FB")
        for stage in range(setup.stages)
        for unit in setup.units
    ]
    waiting = [
        Op(stage, kind, *unit)
        for stage, unit, letters in kinds
        for kind in letters
        if kind == "F" or not setup.forward_only
    ]
    planned, done = frozenset(waiting), set[Op]()
    rows: list[list[str]] = [[] for _ in range(setup.devices)]
    while waiting:
        ready = [op for op in waiting if done.issuperset(needs(setup, op, planned))]
        run = [random.choice(ready)]
        device = setup.device(run[0].stage, run[0].microbatch)
        if run[0].kind in "FB" and random.random() < pair:
            other = "B" if run[0].kind == "F" else "F"
            here = [op for op in ready if op.kind == other and setup.device(op.stage, op.microbatch) == device]
            run += random.sample(here, min(len(here), 1))
        texts = [name(setup, op) for op in sorted(run, key=lambda op: op.kind, reverse=True)]
        rows[device].append(texts[0] if len(texts) == 1 else f"({';'.join(texts)})OVERLAP_F_B")
        waiting = [op for op in waiting if op not in run]
        done.update(run)
    return rows

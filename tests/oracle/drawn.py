"""Random pipelines and whole steps as plain values, and random plans of them as texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

from hypothesis import assume, strategies as st

from tests.oracle.replay import Op, Stuck, name, needs
from tests.oracle.setup import Setup, read_setup
from tests.oracle.step_replay import (
    NodeTimes,
    Texts,
    graph_of,
    issued_late,
    places,
    programs_of,
    times_of,
    with_side_first,
)
from tests.oracle.step_setup import WORKS, Program, Step, parse, parts

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
    return config | {"offload": draw(times)}


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


# Random whole steps as plain values, and random plans of them as texts, for package and second replay alike.

LEVELS = ("none", "optimizer", "gradients", "weights")
ORDERS = ("linear", "loop", "v", "list")


@st.composite
def step_configs(
    draw: st.DrawFn,
    placements: Sequence[str | None] = ORDERS,
    *,
    levels: Sequence[str] = LEVELS,
    has_side: bool | None = None,
    forward_only: bool = False,
    slices: bool = False,
    pairs: bool = False,
    saving: bool = False,
    most_devices: int = 3,
    most_microbatches: int = 4,
    least: int = 0,
) -> Config:
    """A pipeline as `configs` draws it, with something of a step."""
    config = draw(
        configs(
            placements, most_devices=most_devices, most_microbatches=most_microbatches, least=least,
            forward_only=forward_only, slices=slices, pairs=pairs, saving=saving,
        )
    )  # fmt: skip
    p, s = config["devices"], config["stages"]
    level = draw(st.sampled_from(levels))
    times = columns(amounts(), s, 0)
    keys = ([] if level == "none" else ["gather"]) + ([] if forward_only else ["reduce", "optimizer"])
    config |= {key: draw(times) for key in keys if draw(st.booleans())}
    if not forward_only and draw(st.booleans()):
        config["tied"] = draw(amounts())
    if "optimizer" in config and draw(st.booleans()):
        config["clip"] = True
    sizes = ["weights"] if forward_only else ["weights", "gradients", "states"]
    config |= {key: draw(times) for key in sizes if draw(st.booleans())}
    config["shard"] = draw(shards(level, p, can_reduce=not forward_only))
    if draw(st.booleans()) if has_side is None else has_side:
        items = sides(p, s, config["microbatches"], has_backward=not forward_only, least=least)
        config["side"] = draw(st.lists(items, min_size=1, max_size=2))
    return config


@st.composite
def shards(draw: st.DrawFn, level: str, devices: int, *, can_reduce: bool = True) -> Config:
    """How weights, gradients and states are divided."""
    shard: Config = {"level": level, "ranks": draw(st.sampled_from([1, 2, 3, 8]))}
    if level == "weights" and draw(st.integers(0, 2)) == 0:
        shard["gather"] = "each"
    elif level == "weights":
        shard["ahead"] = draw(
            st.one_of(
                st.integers(1, 4), st.just("full"), st.lists(st.integers(1, 3), min_size=devices, max_size=devices)
            )
        )
    if level in ("gradients", "weights") and can_reduce and draw(st.booleans()):
        shard["reduce"] = "each"
    return shard


@st.composite
def sides(
    draw: st.DrawFn, devices: int, stages: int, microbatches: int, *, has_backward: bool = True, least: int = 0
) -> Config:
    """An item of side work."""
    times = st.one_of(amounts(least), st.lists(amounts(least), min_size=microbatches, max_size=microbatches))
    item: Config = {"forward": draw(times), "into": draw(st.integers(0, stages - 1))}
    if has_backward and draw(st.booleans()):
        item["backward"] = draw(times)
    if draw(st.booleans()):
        item["devices"] = draw(st.permutations(range(devices)).map(lambda all_: all_[: max(1, devices - 1)]))
    values = {"p2p": amounts(0, 3), "activation": amounts(0, 2), "output": amounts(0, 2), "static": amounts(0, 2)}
    return item | {key: draw(value) for key, value in values.items() if draw(st.booleans())}


def random_texts(step: Step, random: Random, *, split: float = 0, pair: float = 0, again: float = 0) -> Texts:
    """A random plan that keeps every rule and runs: any order of slots, any legal network programs, some waits.

    `split` is the share of backwards in halves, `pair` that of pairs, `again` that of forwards that run again.
    """
    rows = random_rows(step.setup, random, split=split, pair=pair)
    rows = [_with_recomputation(row, random, again) for row in rows] if step.setup.slices == 1 else rows
    return completed(step, rows, random)


def suited(kinds: Config, **chances: float) -> dict[str, float]:
    """The chances of `random_texts` that suit plans of these kinds: slices have no pairs, forwards nothing."""
    return {key: value for key, value in chances.items() if not kinds or (key == "split" and "slices" in kinds)}


def completed(step: Step, rows: list[list[str]], random: Random, transfers: Sequence[Sequence[str]] = ()) -> Texts:
    """Random passes with all else that a random plan has."""
    rows = _with_side_work(step, rows, random, transfers)
    rows = [_with_optimizers(step, row, random) for row in rows]
    plan = Texts(rows, [_program(step, device, row, random) for device, row in enumerate(rows)], transfers)
    plan = plan._replace(programs=_with_tied(step, plan.programs))
    return plan._replace(waits=_waits(graph_of(step, plan).node_of, _times(step, plan), random))


def _times(step: Step, plan: Texts) -> NodeTimes:
    return times_of(graph_of(step, plan))


def _with_recomputation(row: list[str], random: Random, chance: float) -> list[str]:
    """The row with some forwards run again somewhere before their backward."""
    for text in [text for slot in row for text in parts(slot)]:
        op = parse(text)
        if op.kind in ("B", "I") and random.random() < chance:
            place = places(row)
            first, last = place[f"{op.stage}F{op.number}"], place[text]
            row.insert(random.randint(first + 1, last), f"{op.stage}R{op.number}")
    return row


def _with_side_work(
    step: Step, rows: list[list[str]], random: Random, transfers: Sequence[Sequence[str]]
) -> list[list[str]]:
    """The rows with E and G on random devices and at random places, or by the rule `first` where that never ends."""
    whole = [[*row] for row in rows]
    for number, item in enumerate(step.side):
        for mb in range(step.setup.microbatches):
            row = whole[random.choice(item.devices)]
            first = random.randint(0, len(row) // 2)
            row.insert(first, f"{number}E{mb}")
            if item.backward is not None:
                row.insert(random.randint(max(first + 1, len(row) // 2), len(row)), f"{number}G{mb}")
    bare = replace(step, gather=None, reduce=None, optimizer=None, tied=None, level="none")
    try:
        _times(bare, Texts(whole, [[] for _ in whole], transfers))
    except Stuck:
        return with_side_first(step, rows)
    return whole


def _with_optimizers(step: Step, row: list[str], random: Random) -> list[str]:
    """The row with an OPTIMIZER of each stage: anywhere behind the backwards, or last where it waits for others."""
    if step.optimizer is None:
        return row
    waits_for_others = step.clip or step.ties
    last = {parse(text).stage: text for slot in row for text in parts(slot) if parse(text).kind in ("B", "W")}
    for stage in random.sample([*last], len(last)):
        behind = len(row) if waits_for_others else random.randint(places(row)[last[stage]] + 1, len(row))
        row.insert(behind, f"{stage}OPTIMIZER")
    return row


def _program(step: Step, device: int, row: list[str], random: Random) -> Program:
    """A random legal program: what the slots need is there, other stages come and go, reductions may be late."""
    if step.gathers_late:
        ruled_ones = issued_late(row)
        issued = [[*ruled_ones.get(at - 1, ())] for at in range(len(row) + 1)]
    elif step.level == "weights":
        issued = _random_turns(row, random)
    else:
        heads = [text for text, after in programs_of(step, _alone(device, row))[device] if after is None]
        issued = [[] for _ in range(len(row) + 1)]
        firsts = {
            parse(text).stage: at
            for at, slot in [*enumerate(row)][::-1]
            for text in parts(slot)
            if parse(text).kind == "F"
        }
        for text in random.sample(heads, len(heads)):
            if parse(text).kind == "UNSHARD":
                issued[random.choice([0, random.randint(0, firsts[parse(text).stage])])].append(text)
    ruled = programs_of(
        replace(step, level="gradients" if step.level == "weights" else step.level), _alone(device, row)
    )
    for text, after in ruled[device]:
        if parse(text).kind == "REDUCE_GRAD" and after is not None:
            _insert_late(issued, text, row, places(row)[after] + 1, random)
    return [(text, row[at - 1] if at else None) for at, texts in enumerate(issued) for text in texts]


def _alone(device: int, row: list[str]) -> list[list[str]]:
    return [*([] for _ in range(device)), row]


def _insert_late(issued: list[list[str]], text: str, row: list[str], first: int, random: Random) -> None:
    """Put a reduction behind its last backward or later, and before the first OPTIMIZER, which may wait for it."""
    updates = [at for at, slot in enumerate(row) if "OPTIMIZER" in slot and at >= first]
    at = random.choice([first, random.randint(first, min(updates, default=len(row)))])
    issued[at].insert(random.randint(0, len(issued[at])), text)


def _random_turns(row: list[str], random: Random) -> list[list[str]]:
    """Behind each slot (first: before all of them) RESHARDs and UNSHARDs, so that no slot's stage is sharded."""
    works = [[parse(text).stage for text in parts(slot) if parse(text).kind in WORKS] for slot in row]
    stages = sorted({stage for found in works for stage in found})
    turns, whole, issued = dict.fromkeys(stages, -1), set[int](), list[list[str]]()
    for at in range(len(row) + 1):
        here: list[str] = []
        coming = {stage for found in works[at:] for stage in found}
        needed = works[at] if at < len(row) else []
        for stage in random.sample(stages, len(stages)):
            if stage in whole and (stage not in coming or random.random() < 0.3):
                here.append(f"{stage}RESHARD{turns[stage]}")
                whole.remove(stage)
            if stage not in whole and (stage in needed or (stage in coming and random.random() < 0.3)):
                turns[stage] += 1
                here.append(f"{stage}UNSHARD{turns[stage]}")
                whole.add(stage)
        issued.append(here)
    return issued


def _with_tied(step: Step, programs: Sequence[Program]) -> list[Program]:
    ends = {step.setup.placement[stage]: stage for stage in step.ends} if step.ties else {}
    tied = [[(f"{ends[device]}REDUCE_TIED", None)] if device in ends else [] for device in range(len(programs))]
    return [[*program, *last] for program, last in zip(programs, tied, strict=True)]


def _waits(node_of: dict[str, int], times: NodeTimes, random: Random) -> list[tuple[str, str]]:
    """Up to two pairs of which the second operation starts behind the first: no plan gets stuck by them."""
    starts = {text: times[0][node] for text, node in node_of.items() if parse(text).kind != "RESHARD"}
    pairs = []
    for _ in range(random.choice([0, 0, 1, 2])):
        one, other = random.choice([*starts]), random.choice([*starts])
        if starts[one] != starts[other]:
            pairs.append((one, other) if starts[one] < starts[other] else (other, one))
    return pairs

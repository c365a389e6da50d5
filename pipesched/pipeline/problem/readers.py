"""From what a user writes to a Problem: numbers or their texts, one for all or a list, every default filled in.

`problem_from` is the door. It takes the parameters of `make_problem`, reads those of stages or of layers, then each
part (costs, memory, placement, links) by its own function, and checks the whole. `forward=5` for 8 stages, for
instance, becomes eight exact fives in `Costs`. A bad value is a ConfigError about its parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pipesched.checks import require_flag, require_label, shown
from pipesched.errors import ConfigError, blame
from pipesched.pipeline.layers.layers import OPTIONAL, PARTS, TIMES, Blocks, read_layers, rows_of, stage_values
from pipesched.pipeline.layers.layout_text import looks_like_text, read_megatron_text
from pipesched.pipeline.layers.recut import balanced_for, cut_again
from pipesched.pipeline.plan.step import read_messages, read_place, read_shard, read_side
from pipesched.pipeline.problem.costs import (
    AVERAGED,
    COSTS,
    HALVES,
    MEMORY_KEYS,
    SIZES,
    Costs,
    Links,
    Memory,
    exact_links,
    exact_speed,
    fractions_of,
    require_decimals,
    scaled,
)
from pipesched.pipeline.problem.placement import Placement, explicit_placement, named_placement
from pipesched.pipeline.problem.problem import MOST_OPERATIONS, PLAIN, Problem, letters_of, require_size
from pipesched.pipeline.problem.quantities import (
    MEMORY,
    TIME,
    Exact,
    Unit,
    canonical,
    count_of,
    exact,
    exact_number,
    exact_numbers,
    first_entries,
    is_several,
    length_text,
    to_fraction,
)
from pipesched.pipeline.problem.units import FORWARD_ONLY, Extent, read_units, require_alike_pairs

# parameters with a value for each stage, which layers add up to:
OF_STAGES = ("backward", *(key for key in TIMES if key != "whole"), *SIZES)
ABSENT = {one.name: one.absent for one in (*COSTS.values(), *MEMORY_KEYS.values())}


def problem_from(values: Mapping[str, Any]) -> Problem:
    """Return the problem of the parameters of `make_problem`, all of which are there. Raises ConfigError."""
    if isinstance(values["layout"], str) and looks_like_text(values["layout"]):
        values = {**values, "layout": read_megatron_text(values["layout"])}
    if values["layout"] is not None and values["layers"] is None and values["layer"] is None:
        return _of_blocks(values)
    p, chunks, layout = count_of("devices", values["devices"]), values["chunks"], values["layout"]
    if chunks is not None and values["stages"] is not None:
        raise ConfigError("give either `stages`, or the `chunks` of a device", "chunks")
    if chunks is not None:
        s = p * count_of("chunks", chunks)
    elif values["stages"] is not None:
        s = count_of("stages", values["stages"])
    else:
        s = len(first_entries(layout, MOST_OPERATIONS)) if is_several(layout) else p
    given = {key: values[key] for key in OF_STAGES}
    time = Unit(TIME, require_label(values["time_unit"], "time_unit"))
    size = Unit(MEMORY, require_label(values["unit"], "unit"))
    across = {key: values[key] for key in ("p2p", *AVERAGED)}
    parts = (given, values["layer"] if isinstance(values["layer"], Mapping) else {})
    split = any(part.get(key) is not None for part in parts for key in ("backward_input", "backward_weight"))
    tables = {**given, **{key: values[key] for key in ("p2p", "layer", "side")}}
    varied: Any = tuple(values[key] for key in ("sizes", "slices", "mode", "rounds"))
    m, units = read_units(varied, tables, values["microbatches"], (p, s), time)
    every = m * units["rounds"]
    require_size(letters_of(units["mode"], split=split), s, every, units["slices"].count)  # before a list is made of it
    has_layers = any(values[key] is not None for key in ("layers", *PARTS, "layout"))
    model = read_layers(values, m, p, s, time, size) if has_layers else None
    made = {**given, **across} if model is None else stage_values(model, given, across, units["slices"])
    made = {key: ABSENT[key] if value is None and key in given else value for key, value in made.items()}
    unlike = {
        **units,
        "speed": None if values["speed"] is None else read_speed(values["speed"], p),
        "links": None if values["links"] is None else read_links(values["links"], p, time),
    }
    given = {**made, **{key: values[key] for key in ("budget", "kv", "receive", "tied")}}
    there = read_placement(values["placement"], p, s)
    extent = Extent(p, s, m, time, size)
    costs = _costs(given, extent, split=split)
    held: dict[str, Any] = {key: extent.read(one, given[key]) for key, one in MEMORY_KEYS.items() if key != "unit"}
    if held["activation"] is None:
        held["activation"] = (canonical(Fraction(p, s)),) * s
    memory = Memory(**held, unit=size.label)
    shard, clip, side, messages = (values[key] for key in ("shard", "clip", "side", "messages"))
    unlike |= {
        "shard": None if shard is None else read_shard(shard, p, gathers=costs.gather is not None),
        "clip": None if clip is None else require_flag(clip, "clip"),
        "side": () if side is None else read_side(side, extent),
        "messages": None if messages is None else read_messages(messages),
        **{name: values[name] for name in PLAIN},
    }
    if memory.receive and unlike["messages"] is None:
        raise ConfigError("has no effect where messages are free: `messages` names their queue", "receive")
    sizes: dict[str, Any] = {"devices": p, "stages": s, "microbatches": every, "placement": there}
    problem = Problem(**sizes, costs=costs, memory=memory, layers=model, **unlike)
    if problem.mode == FORWARD_ONLY:
        problem = forwards_alone(problem)
    elif costs.overlap is not None:
        require_alike_pairs(costs, problem.sizes)
    return problem if model is None else balanced_for(problem)


def _of_blocks(values: Mapping[str, Any]) -> Problem:
    """Return the problem whose given stages are the layers of a cut. Raises ConfigError."""
    stages, chunks = values["stages"], values["chunks"]
    free = dict.fromkeys(("layout", *PARTS[1:], "placement", "chunks" if stages is not None else "stages"))
    free |= dict.fromkeys(("shard", "clip", "side"))  # which are of the stages that are made
    blocks = problem_from({**values, **free})
    p2p, costs, memory = blocks.costs.p2p, blocks.costs, blocks.memory
    columns: dict[str, Any] = {key: getattr(costs, key) for key in TIMES if key not in ("whole", *HALVES)}
    columns |= {key: getattr(costs, key) for key in HALVES if costs.split}
    columns["backward"] = costs.whole if costs.split else costs.backward
    columns |= {key: getattr(memory, key) for key in SIZES}
    columns |= {key: column for key in AVERAGED if len({*(column := getattr(memory, key))}) > 1}
    layer = Blocks({key: [*map(fractions_of, column)] for key, column in columns.items() if column is not None})
    made_of = {
        **values, **dict.fromkeys((*OF_STAGES, "stages")),
        "layers": blocks.stages, "layer": layer, "chunks": chunks,
        "p2p": [*map(fractions_of, p2p)] if len({*p2p}) > 1 or rows_of(p2p) > 1 else sum(map(to_fraction, p2p[:1])),
        "microbatches": blocks.batches, "slices": blocks.slices,
        **{key: column[0] if len({*(column := getattr(blocks.memory, key))}) == 1 else default
           for key, default in (("retain", 1), ("checkpoint", 0))},
    }  # fmt: skip
    try:
        made = problem_from(made_of)
    except ConfigError as error:  # of `layers`, which are the stages
        key = "stages" if error.key == "layers" else error.key
        raise ConfigError(error.message.replace("`layers`", "`stages`"), key, entry=error.entry) from None
    return replace(made, layers=made.layers and replace(made.layers, blocks=True))


def with_budget(problem: Problem, budget: Any) -> Problem:
    """Return `problem` with the budget that `make_problem` would read, and its stages cut for that if a rule cuts them.

    Raises ConfigError about `budget`.
    """
    extent = Extent(problem.devices, 0, 0, Unit(TIME, ""), Unit(MEMORY, problem.memory.unit))
    limits = extent.read(MEMORY_KEYS["budget"], budget)
    return cut_again(replace(problem, memory=replace(problem.memory, budget=limits)))


def _costs(given: Mapping[str, Any], extent: Extent, *, split: bool) -> Costs:
    if is_several(given["tied"]):
        raise ConfigError("must be one number: first and last stage add up the gradients that they share", "tied")
    read_last = ("whole", *HALVES)
    values: dict[str, Any] = {key: extent.read(one, given[key]) for key, one in COSTS.items() if key not in read_last}
    if values["reload"] is not None and values["offload"] is None:
        raise ConfigError("the way back from host memory; `offload` is needed too", "reload")
    values["recompute"] = values["recompute"] or values["forward"]
    values["reload"] = values["reload"] or values["offload"]
    values["whole"] = whole = extent.read(COSTS["whole"], given["backward"])
    if whole and {*map(type, whole)} - {int, float}:
        require_decimals(whole, "backward")
    lacking = [key for key in HALVES if given[key] is None]
    if len(lacking) == 1:
        other = HALVES[lacking == [HALVES[0]]]
        raise ConfigError(f"half of the backward; `{lacking[0]}` is needed too", other)
    values |= {key: extent.read(COSTS[key], given[key]) for key in HALVES}
    if lacking:  # half of B each, by default twice F
        half = values["forward"] if whole is None else tuple(scaled(entry, Fraction(1, 2)) for entry in whole)
        values |= {"whole": None, **dict.fromkeys(HALVES, half)}
    return Costs(**values, split=split)


def forwards_alone(problem: Problem) -> Problem:
    """Return the problem of its forward passes: what the rest would cost counts nowhere."""
    nothing: Any = (0,) * problem.stages
    costs = replace(
        problem.costs, backward_input=nothing, backward_weight=nothing, recompute=nothing, overlap=None, offload=None,
        reload=None, split=False, whole=None,
    )  # fmt: skip
    memory, layers = replace(problem.memory, gradients=nothing, states=nothing), problem.layers
    if layers is not None:
        absent: dict[str, Any] = dict.fromkeys((*HALVES, "recompute", "gradients", "states"), 0)
        absent |= dict.fromkeys(key for key in OPTIONAL if key != "gather")
        layers = replace(layers, **{key: replace(getattr(layers, key), **absent) for key in PARTS})
    return replace(problem, costs=costs, memory=memory, layers=layers)


def read_placement(value: Any, devices: int, stages: int) -> Placement | None:
    """Return the placement that a name, a list of devices or two of them mean, None for "auto". Raises ConfigError."""
    if is_several(value):
        return _listed_placement(value, devices, stages)
    if stages < devices:
        raise ConfigError(f"must be at least the number of devices ({devices}), not {stages}", "stages")
    if isinstance(value, Placement):
        return value
    if value is None or (isinstance(value, str) and value == "auto"):
        return None
    if not isinstance(value, str):
        raise ConfigError(f"must be a name or a list of devices, not {shown(value)}", "placement")
    return named_placement(value, devices, stages)


def _listed_placement(given: Iterable[Any], devices: int, stages: int) -> Placement:
    value = first_entries(given, stages)
    if len(value) == 2 and all(map(is_several, value)):  # of two copies of the stages
        first, second = (_listed_placement(way, devices, stages) for way in value)
        both = replace(first, mirrored=True)
        if [first, second] != [*map(Placement, both.ways)]:
            raise ConfigError(f"the second list must mirror the first, as {shown(both.ways[1])} does", "placement")
        return both
    if len(value) != stages:
        found = length_text(given, value, stages)
        raise ConfigError(f"a list needs one device for each of the {stages} stages; this one has {found}", "placement")
    with suppress(ValueError):
        numbers = [exact(entry) for entry in value]
        if all(number.denominator == 1 for number in numbers):
            return explicit_placement(tuple(map(int, numbers)), devices)
    raise ConfigError(f"a list holds device numbers, not {shown(value)}", "placement")


FORM = "{size: 4, inside: 0.05, between: 0.4}, the same with `groups` instead of `size`, or a list for each device"


def read_speed(value: Any, devices: int) -> tuple[Exact, ...]:
    """Return the speed of each device, from a list, one number for all, or numbers by device. Raises ConfigError."""
    if not isinstance(value, Mapping):
        return exact_speed(exact_numbers("speed", value, devices, "one a device", None), devices)
    speeds: list[Exact] = [1] * devices
    for device, speed in value.items():
        number = read_place(device, "device", devices - 1, "speed")
        speeds[number] = canonical(exact_number("speed", speed, None, entry=number))
    return exact_speed(speeds, devices)


def read_links(value: Any, devices: int, time: Unit) -> Links:
    """Return the latency from each device to each, from that matrix, or from groups of devices. Raises ConfigError."""
    if isinstance(value, Mapping):
        return _of_groups(value, devices, time)
    if not is_several(value):
        raise ConfigError(f"must be {FORM}, not {shown(value)}", "links")
    rows = []
    for device, row in enumerate(first_entries(value, devices)):
        entries = first_entries(row, devices) if is_several(row) else row
        if isinstance(entries, list):
            entries = [_latency(entry, f"from device {device} to {there}", time) for there, entry in enumerate(entries)]
        rows.append(entries)
    return exact_links(rows, devices)


def _of_groups(value: Mapping[Any, Any], devices: int, time: Unit) -> Links:
    """Return the links of devices in groups: `inside` a group, and `between` two."""
    unknown = next((key for key in value if key not in ("size", "groups", "inside", "between")), None)
    if unknown is not None:
        raise ConfigError(f"unknown key {shown(unknown)}; this is {FORM}", "links")
    absent = next((key for key in ("inside", "between") if value.get(key) is None), None)
    given = [key for key in ("size", "groups") if value.get(key) is not None]
    if absent or len(given) != 1:
        what = f"`{absent}` is missing" if absent else "one of `size` and `groups` is needed"
        raise ConfigError(f"{what}; this is {FORM}", "links")
    inside, between = (_latency(value[key], f"`{key}`", time) for key in ("inside", "between"))
    if given == ["groups"]:
        group = _by_lists(value["groups"], devices)
    else:
        with blame("links", head="`size` "):
            each = count_of("links", value["size"])
        group = [device // each for device in range(devices)]  # so many in a row; the last one may have fewer
    return tuple(
        tuple(0 if here == there else inside if group[here] == group[there] else between for there in range(devices))
        for here in range(devices)
    )


def _by_lists(groups: Any, devices: int) -> list[int]:
    """Return the group of each device. Raises ConfigError for one that is missing, or named twice."""
    group: dict[int, int] = {}
    for number, members in enumerate(first_entries(groups, devices) if is_several(groups) else [groups]):
        if not is_several(members):
            raise ConfigError(f"`groups` are lists of devices, not {shown(groups)}", "links")
        for member in first_entries(members, devices):
            device = read_place(member, "device", devices - 1, "links")
            if device in group:
                raise ConfigError(f"`groups` name device {device} twice", "links")
            group[device] = number
    missing = next((device for device in range(devices) if device not in group), None)
    if missing is not None:
        raise ConfigError(f"`groups` miss device {missing}", "links")
    return [group[device] for device in range(devices)]


def _latency(value: Any, what: str, time: Unit) -> Exact:
    with blame("links", head=f"{what}: "):
        return canonical(exact_number("links", value, time))

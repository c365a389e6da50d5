"""From what a user writes to a Problem: numbers or their texts, one for all or a list, every default filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pipesched.checks import require_label, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import (
    Costs,
    Links,
    exact_links,
    exact_speed,
    fractions_of,
    in_one,
    require_decimals,
    scaled,
)
from pipesched.pipeline.layer_arguments import (
    GivenLayers,
    layer_of,
    read_layers,
    require_one_layout,
    stage_values,
    values_across,
)
from pipesched.pipeline.layers import SHARES, SIZES, TIMES, rows_of
from pipesched.pipeline.memory import KEPT, Memory
from pipesched.pipeline.placement import Placement, explicit_placement, named_placement
from pipesched.pipeline.problem import MOST_OPERATIONS, Problem, letters_of, require_size
from pipesched.pipeline.quantities import Exact, Number, canonical, exact, to_fraction
from pipesched.pipeline.recut import balanced_for, cut_again
from pipesched.pipeline.step import Shard, SideItem
from pipesched.pipeline.step_arguments import StepShape, read_step, read_step_costs
from pipesched.pipeline.unit_arguments import Table, exact_table, read_units, require_alike_pairs
from pipesched.pipeline.units import FORWARD_ONLY
from pipesched.pipeline.units_of_measure import (
    MEMORY,
    TIME,
    Unit,
    count_of,
    exact_number,
    exact_numbers,
    first_entries,
    is_several,
    length_text,
)

Numbers = Number | Sequence[Number]  # one for all, or a list
Tables = Number | Sequence[Number | Sequence[Number]]  # the same, of which an entry may be a list of one a microbatch


def make_problem(
    *,
    devices: Number,
    stages: Number | None = None,
    microbatches: Number | None = None,
    placement: str | Sequence[int] | Placement | None = "auto",
    forward: Tables | None = None,
    backward: Tables | None = None,
    backward_input: Tables | None = None,
    backward_weight: Tables | None = None,
    recompute: Tables | None = None,
    overlap: Numbers | None = None,
    p2p: Tables = 0,
    offload: Tables | None = None,
    reload: Tables | None = None,
    activation: Tables | None = None,
    retain: Numbers = 1,
    checkpoint: Numbers = 0,
    static: Numbers | None = None,
    budget: Numbers | None = None,
    unit: str = "microbatch",
    name: str = "",
    time_unit: str = "",
    lanes: str = "device",
    chunks: Number | None = None,
    layers: Number | None = None,
    layer: Mapping[str, Numbers] | None = None,
    first: Mapping[str, Number] | None = None,
    last: Mapping[str, Number] | None = None,
    layout: str | Sequence[int] | None = None,
    speed: Numbers | Mapping[int, Number] | None = None,
    links: Mapping[str, Any] | Sequence[Sequence[Number]] | None = None,
    sizes: Mapping[str, Sequence[Number]] | None = None,
    slices: Number | Mapping[str, Any] = 1,
    mode: str = "train",
    kv: Number = 0,
    gather: Numbers | None = None,
    reduce: Numbers | None = None,
    optimizer: Numbers | None = None,
    tied: Number | None = None,
    weights: Numbers | None = None,
    gradients: Numbers | None = None,
    states: Numbers | None = None,
    shard: str | Mapping[str, Any] | Shard | None = None,
    clip: bool | None = None,
    side: Sequence[Mapping[str, Any] | SideItem] | None = None,
) -> Problem:
    """Build a problem, every default filled in.

    Numbers may be int, float, Decimal, Fraction, the text of a number, or numpy's; of decimals 9 digits
    count, rounded half up.
    Where microbatches differ, forward, backward (or its halves), recompute, offload, reload and activation may be S
    lists of M numbers, one for each stage and microbatch, and p2p S-1 lists; an entry of the outer list may be one
    number for all microbatches.
    Times are in the user's time unit, memory in the user's memory unit, unless they name another: "250us", "80GB" (ns,
    us, ms, s; B, kB, MB, GB, TB, KiB, MiB, GiB, TiB), which `time_unit` or `unit` makes exact numbers. Per-stage values
    are one number for all, or a list.

    Args:
        devices: P, the pipeline ranks.
        stages: S, contiguous parts of the model; default: one a device.
        microbatches: M; default as many as lists of each have, or 2P.
        placement: "auto" (the algorithm's own), "linear", "loop", "v", "wave", "bidirectional", or the device of each
            stage.
        forward: Time of a forward, per stage; default 1.
        backward: Time of a full backward, per stage; default twice forward. Each half is half of it.
        backward_input: Instead of backward: time of the input gradient, per stage. The backward may then be split.
            Beside backward: of halves that run apart, where both take another time than the whole.
        backward_weight: Time of the weight gradient, per stage.
        recompute: Time to run a forward again, per stage; default forward.
        overlap: Time of an overlapped pair F&B, by the stage of its forward; default: the sum of its parts.
        p2p: Latency of an edge between two devices; one for each of the S-1 boundaries, or of those between layers.
        offload: Time to move one activation to host memory, per stage; default: it cannot be offloaded.
        reload: Time to load it back, per stage; default offload.
        activation: Memory of one stage and microbatch, per stage; default P/S.
        retain: What is held from the end of I to the end of W, in activations, per stage. Above 1, the start of I takes
            the rest: gradients that are held beside the activation.
        checkpoint: Part of an activation that a recomputed microbatch keeps, per stage.
        static: Weights, gradients, optimizer, per stage; default 0.
        budget: Limit of activations and static memory, per device; default: none.
        unit: Label for memory, for instance "GB".
        name: Title for charts and tables.
        time_unit: Label for times, for instance "ms".
        lanes: "device" (each device has its own lanes to host memory) or "pair" (two devices share both).
        chunks: V, stages a device, instead of stages: S = P x V.
        layers: The number of layers, which are cut into the stages; their costs follow from `layer`, `first` and
            `last`, and cannot be given too. A family that runs another number of stages cuts anew. Default: as many as
            lists of `layer` have.
        layer: What a layer costs: forward, backward (or backward_input and backward_weight, or all), recompute,
            overlap, offload, reload, gather, reduce, optimizer, activation (default P/layers), static, weights,
            gradients, states, retain and checkpoint, with defaults as for stages; each a number, or a list of one a
            layer.
        first: What the first stage has beside its layers, by the same keys; default nothing.
        last: What the last stage has beside its layers, by the same keys; default nothing.
        layout: "best" (default: the least makespan under the algorithm that runs), "balanced" (the least largest work
            of a device), "equal", or the layers of each stage. Without layers the given stages are the layers, which
            are cut into P x `chunks` stages.
        speed: What each device divides the costs of operations by, but for offload and reload, from 0.001 to 1000: a
            list, one for all, or by device ({2: 0.8}, the others 1); default 1. They last that, rounded half up to 9
            digits.
        links: Latency from device to device, which is added to that of the boundary: P lists of P, or {"size": 4,
            "inside": 0.05, "between": 0.4} for groups of so many devices in a row, or "groups", lists of devices,
            instead of "size".
        sizes: Factors of each microbatch, lists of M: "work" (of the durations of F, B, I, W and R on every stage),
            "activation" (of its activation, and of O and L), "message" (of p2p and links); each default all 1.
        slices: How many slices each microbatch is cut into along its sequence, or {"count", "tokens", "attention",
            "work", "overhead"}: tokens "equal" (default), "work" or a part each; attention, the part of the causal core
            in the work of a whole (default 0), or the part of the work of each slice; overhead, a time that each lasts
            beside that. With "count": "auto" the best number up to "most" (default 64) is found by `run`.
        mode: "train", or "forward": forward passes alone.
        kv: Keys and values as a part of the activation, from 0 to 1. Slices hold their gradients, forwards alone them.
        gather: Time to bring the weights of a stage together on its device, over the network; default: nothing is
            gathered. With this or another value of a step, what follows and precedes the passes is planned too.
        reduce: Time to add up the gradients of a stage among data-parallel ranks, over the network.
        optimizer: Time of the update of a stage, on its device.
        tied: Time in which first and last stage add up gradients that they share, over the network: one number.
        weights: Memory of the weights of a stage, whole; default 0. Like gradients and states part of what stays.
        gradients: Memory of its gradients, whole; default 0.
        states: Memory of the optimizer's states for it, whole; default 0.
        shard: What data-parallel ranks divide: "none", the "optimizer" states (default where weights are gathered),
            "gradients" too, or "weights" too; or {"level", "ranks", "ahead", "reduce"}: among how many (default 1), how
            many stages are whole at once with weights divided (a number, one a device, "full" or "auto"; default 3),
            and whether gradients are reduced "last" (once a stage, default) or after "each" microbatch.
        clip: Whether each optimizer waits for the gradients of all stages, to clip their norm.
        side: Work that devices do beside the pipeline, for each microbatch: mappings of name, forward and backward (a
            time, or one a microbatch; no backward: frozen), into (the stage that takes its output; default 0), devices
            ("all", default, or a list), and p2p, activation, output and static (default 0).

    Raises:
        ConfigError: For a bad value; its `key` is the parameter.
    """
    values = dict(locals())
    is_of_blocks = layout is not None and layers is None and layer is None
    return _of_blocks(values) if is_of_blocks else _of_stages(values)


# parameters with a value for each stage, which layers add up to
OF_STAGES = (*(key for key in TIMES if key != "whole"), "backward", *SIZES)


def _of_stages(values: Mapping[str, Any]) -> Problem:
    """Return the problem of stages, or of layers that make them, by the parameters of make_problem.

    Raises ConfigError.
    """
    p = count_of("devices", values["devices"])
    s = _stages(p, values["stages"], values["chunks"], values["layout"])
    given = {key: values[key] for key in OF_STAGES}
    time = Unit(TIME, require_label(values["time_unit"], "time_unit"))
    size = Unit(MEMORY, require_label(values["unit"], "unit"))
    across = {key: values[key] for key in ("p2p", *SHARES)}
    parts = (given, values["layer"] if isinstance(values["layer"], Mapping) else {})
    split = any(part.get(key) is not None for part in parts for key in ("backward_input", "backward_weight"))
    tables = {**given, **{key: values[key] for key in ("p2p", "layer", "side")}}
    m, units = read_units(
        (values["sizes"], values["slices"], values["mode"]), tables, values["microbatches"], (p, s), time
    )
    by_layer = {key: values[key] for key in ("layers", "layer", "first", "last", "layout")}
    model = read_layers(GivenLayers(**by_layer, across=across, microbatches=m), p, s, time, size)
    if model is not None:
        across = values_across(model, across)
        given = stage_values(model, given)
        require_one_layout(units["slices"], model)
    require_size(letters_of(units["mode"], split=split), s, m, units["slices"].count)
    unlike = {**units, "speed": read_speed(values["speed"], p), "links": read_links(values["links"], p, time)}
    given = {**given, **across, **{key: values[key] for key in ("budget", "kv", "tied")}}
    there = read_placement(values["placement"], p, s)
    costs, memory = _costs(given, s, m, time, split=split), _memory(given, p, s, m, size)
    unlike |= read_step(values["shard"], values["clip"], values["side"], costs, StepShape(p, s, m, time, size))
    labels = (values["name"], values["time_unit"], values["lanes"])
    return _checked(Problem(p, s, m, there, costs, memory, *labels, model, **unlike))


def _checked(problem: Problem) -> Problem:
    """Return a problem with the cut that its rule finds, and of forward passes without the costs of the rest.

    Raises ConfigError for pairs that differ.
    """
    if problem.mode == FORWARD_ONLY:
        return balanced_for(forwards_alone(problem))
    require_alike_pairs(problem.costs, problem.sizes)
    return balanced_for(problem)


def _of_blocks(values: Mapping[str, Any]) -> Problem:
    """Return the problem whose given stages are the layers of a cut, by the parameters of make_problem.

    Raises ConfigError.
    """
    stages, chunks = values["stages"], values["chunks"]
    free = dict.fromkeys(("layout", "first", "last", "placement", "chunks" if stages is not None else "stages"))
    free |= dict.fromkeys(("shard", "clip", "side"))  # which are of the stages that are made
    blocks = make_problem(**{**values, **free})
    p2p = blocks.costs.p2p
    made_of = {
        **values, **dict.fromkeys((*OF_STAGES, "stages")),
        "layers": blocks.stages, "layer": layer_of(blocks.costs, blocks.memory), "chunks": chunks,
        "p2p": [*map(fractions_of, p2p)] if len({*p2p}) > 1 or rows_of(p2p) > 1 else sum(map(to_fraction, p2p[:1])),
        "microbatches": blocks.microbatches, "slices": blocks.slices,
        **{key: column[0] if len({*(column := getattr(blocks.memory, key))}) == 1 else default
           for key, default in (("retain", 1), ("checkpoint", 0))},
    }  # fmt: skip
    try:
        made = make_problem(**made_of)
    except ConfigError as error:  # of `layers`, which are the stages
        key = "stages" if error.key == "layers" else error.key
        raise ConfigError(error.message.replace("`layers`", "`stages`"), key, entry=error.entry) from None
    return replace(made, layers=made.layers and replace(made.layers, blocks=True))


def with_budget(problem: Problem, budget: Any) -> Problem:
    """Return `problem` with the budget that `make_problem` would read, and its stages cut for that if a rule cuts them.

    Raises ConfigError about `budget`.
    """
    size = Unit(MEMORY, problem.memory.unit)
    limits = exact_numbers("budget", budget, problem.devices, "one a device", size, positive=True)
    return cut_again(replace(problem, memory=replace(problem.memory, budget=limits)))


def _memory(given: Mapping[str, Any], devices: int, stages: int, microbatches: int, size: Unit) -> Memory:
    activation, static = _or(given["activation"], Fraction(devices, stages)), _or(given["static"], 0)
    budget = given["budget"]
    limits = None if budget is None else exact_numbers("budget", budget, devices, "one a device", size, positive=True)
    kept: dict[str, Any] = {key: exact_numbers(key, _or(given[key], 0), stages, "one a stage", size) for key in KEPT}
    return Memory(
        activation=exact_table("activation", activation, stages, "one a stage", size, microbatches),
        retain=exact_numbers("retain", given["retain"], stages, "one a stage", None),
        checkpoint=exact_numbers("checkpoint", given["checkpoint"], stages, "one a stage", None, most=1),
        static=exact_numbers("static", static, stages, "one a stage", size),
        budget=limits,
        unit=size.label,
        kv=canonical(exact_number("kv", given["kv"], None, 1)),
        **kept,
    )


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _costs(given: Mapping[str, Any], stages: int, microbatches: int, time: Unit, *, split: bool) -> Costs:

    def read(key: str, value: Any) -> Table:
        return exact_table(key, value, stages, "one a stage", time, microbatches)

    times: dict[str, Any] = {
        key: None if given[key] is None else read(key, given[key]) for key in ("recompute", "offload", "reload")
    }
    pairs = given["overlap"]
    times["overlap"] = None if pairs is None else exact_numbers("overlap", pairs, stages, "one a stage", time)
    if times["reload"] is not None and times["offload"] is None:
        raise ConfigError("the way back from host memory; `offload` is needed too", "reload")
    forwards = read("forward", _or(given["forward"], 1))
    wholes_and_halves = (given[key] for key in ("backward", "backward_input", "backward_weight"))
    halves = _halves(read, forwards, *wholes_and_halves)
    return Costs(
        forward=forwards,
        backward_input=halves[0],
        backward_weight=halves[1],
        recompute=times["recompute"] or forwards,
        overlap=times["overlap"],
        p2p=exact_table("p2p", given["p2p"], stages - 1, "one a boundary between stages", time, microbatches),
        offload=times["offload"],
        reload=times["reload"] or times["offload"],
        split=split,
        whole=halves[2],
        **read_step_costs(given, stages, time),
    )


def forwards_alone(problem: Problem) -> Problem:
    """Return the problem of its forward passes: what the rest would cost counts nowhere."""
    nothing: Any = (0,) * problem.stages
    costs = replace(
        problem.costs, backward_input=nothing, backward_weight=nothing, recompute=nothing, overlap=None, offload=None,
        reload=None, split=False, whole=None,
    )  # fmt: skip
    memory, layers = replace(problem.memory, gradients=nothing, states=nothing), problem.layers
    return replace(problem, costs=costs, memory=memory, layers=layers and layers.forwards_alone)


def _stages(devices: int, stages: Any, chunks: Any, layout: Any) -> int:
    """Return the number of stages: as given, by the chunks of a device, by a layout, or else one a device."""
    if chunks is not None and stages is not None:
        raise ConfigError("give either `stages`, or the `chunks` of a device", "chunks")
    if chunks is not None:
        return devices * count_of("chunks", chunks)
    if stages is not None:
        return count_of("stages", stages)
    return len(first_entries(layout, MOST_OPERATIONS)) if is_several(layout) else devices


def read_placement(value: Any, devices: int, stages: int) -> Placement | None:
    """Return the placement that a name or a list of devices means, None for "auto". Raises ConfigError."""
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
    if len(value) != stages:
        found = length_text(given, value, stages)
        raise ConfigError(f"a list needs one device for each of the {stages} stages; this one has {found}", "placement")
    try:
        numbers = [exact(entry) for entry in value]
    except ValueError:
        raise ConfigError(f"a list holds device numbers, not {shown(value)}", "placement") from None
    if any(number.denominator != 1 for number in numbers):
        raise ConfigError(f"a list holds device numbers, not {shown(value)}", "placement")
    return explicit_placement(tuple(map(int, numbers)), devices)


def _halves(
    read: Callable[[str, Any], Table], forward: Table, backward: Any, half_input: Any, half_weight: Any
) -> tuple[Table, Table, Table | None]:
    """Return I and W of each stage, as given or half of B each, and B if it is given beside them; default twice F."""
    whole = None if backward is None else read("backward", backward)
    require_decimals(in_one(whole or ()), "backward")
    if half_input is None and half_weight is None:
        if whole is None:
            return forward, forward, None
        half = tuple(scaled(entry, Fraction(1, 2)) for entry in whole)
        return half, half, None
    if half_input is None:
        raise ConfigError("half of the backward; `backward_input` is needed too", "backward_weight")
    if half_weight is None:
        raise ConfigError("half of the backward; `backward_weight` is needed too", "backward_input")
    return read("backward_input", half_input), read("backward_weight", half_weight), whole


FORM = "{size: 4, inside: 0.05, between: 0.4}, the same with `groups` instead of `size`, or a list for each device"


def read_speed(value: Any, devices: int) -> tuple[Exact, ...] | None:
    """Return the speed of each device, from a list, one number for all, or numbers by device. Raises ConfigError."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return exact_speed(exact_numbers("speed", value, devices, "one a device", None), devices)
    speeds: list[Exact] = [1] * devices
    for device, speed in value.items():
        number = _device(device, devices, "speed")
        speeds[number] = canonical(exact_number("speed", speed, None, entry=number))
    return exact_speed(speeds, devices)


def read_links(value: Any, devices: int, time: Unit) -> Links | None:
    """Return the latency from each device to each, from that matrix, or from groups of devices. Raises ConfigError."""
    if value is None:
        return None
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
    group = _by_size(value["size"], devices) if given == ["size"] else _by_lists(value["groups"], devices)
    return tuple(
        tuple(0 if here == there else inside if group[here] == group[there] else between for there in range(devices))
        for here in range(devices)
    )


def _by_size(size: Any, devices: int) -> list[int]:
    """Return the group of each device, where groups are so many devices in a row (the last one may have fewer)."""
    try:
        each = count_of("links", size)
    except ConfigError as error:
        raise ConfigError(f"`size` {error.message}", "links") from None
    return [device // each for device in range(devices)]


def _by_lists(groups: Any, devices: int) -> list[int]:
    """Return the group of each device. Raises ConfigError for one that is missing, or named twice."""
    group: dict[int, int] = {}
    for number, members in enumerate(first_entries(groups, devices) if is_several(groups) else [groups]):
        if not is_several(members):
            raise ConfigError(f"`groups` are lists of devices, not {shown(groups)}", "links")
        for member in first_entries(members, devices):
            device = _device(member, devices, "links")
            if device in group:
                raise ConfigError(f"`groups` name device {device} twice", "links")
            group[device] = number
    missing = next((device for device in range(devices) if device not in group), None)
    if missing is not None:
        raise ConfigError(f"`groups` miss device {missing}", "links")
    return [group[device] for device in range(devices)]


def _device(value: Any, devices: int, key: str) -> int:
    try:
        number = to_fraction(value)
    except ValueError:
        raise ConfigError(f"{shown(value)} is no device; devices are 0 to {devices - 1}", key) from None
    if number.denominator != 1 or not 0 <= number < devices:
        raise ConfigError(f"device {shown(value)} is out of range; devices are 0 to {devices - 1}", key)
    return int(number)


def _latency(value: Any, what: str, time: Unit) -> Exact:
    try:
        return canonical(exact_number("links", value, time))
    except ConfigError as error:
        raise ConfigError(f"{what}: {error.message}", "links") from None

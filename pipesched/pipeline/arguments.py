"""From what a user writes to a Problem: numbers or their texts, one for all or a list, every default filled in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from fractions import Fraction
from itertools import islice
from typing import Any

from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import Costs
from pipesched.pipeline.memory import Memory
from pipesched.pipeline.placement import Placement, explicit_placement, named_placement
from pipesched.pipeline.problem import Problem, require_size
from pipesched.pipeline.quantities import Exact, Number, canonical, exact, is_scalar, ticks_per_unit, to_fraction

Numbers = Number | Sequence[Number]  # one for all, or a list
NOT_SEVERAL = (str, bytes, bytearray, Mapping, Set)  # these can be looped over, and are no lists


def make_problem(
    *,
    devices: Number,
    stages: Number | None = None,
    microbatches: Number | None = None,
    placement: str | Sequence[int] | Placement | None = "auto",
    forward: Numbers = 1,
    backward: Numbers | None = None,
    backward_input: Numbers | None = None,
    backward_weight: Numbers | None = None,
    recompute: Numbers | None = None,
    overlap: Numbers | None = None,
    p2p: Numbers = 0,
    offload: Numbers | None = None,
    reload: Numbers | None = None,
    activation: Numbers | None = None,
    retain: Numbers = 1,
    checkpoint: Numbers = 0,
    static: Numbers = 0,
    budget: Numbers | None = None,
    unit: str = "microbatch",
    name: str = "",
    time_unit: str = "",
    lanes: str = "device",
) -> Problem:
    """Build a problem, every default filled in.

    Numbers may be int, float, Decimal, Fraction, the text of a number, or numpy's; a decimal has at most 9 digits.
    Times are in the user's time unit, memory in the user's memory unit; per-stage values are one number for all, or a
    list.

    Args:
        devices: P, the pipeline ranks.
        stages: S, contiguous parts of the model; default: one a device.
        microbatches: M; default 2P.
        placement: "auto" (the algorithm's own), "linear", "loop", "v", "wave", "bidirectional", or the device of each
            stage.
        forward: Time of a forward, per stage.
        backward: Time of a full backward, per stage; default twice forward. Each half is half of it.
        backward_input: Instead of backward: time of the input gradient, per stage. The backward may then be split.
        backward_weight: Time of the weight gradient, per stage.
        recompute: Time to run a forward again, per stage; default forward.
        overlap: Time of an overlapped pair F&B, by the stage of its forward; default: the sum of its parts.
        p2p: Latency of an edge between two devices; one for each of the S-1 boundaries.
        offload: Time to move one activation to host memory, per stage; default: it cannot be offloaded.
        reload: Time to load it back, per stage; default offload.
        activation: Memory of one stage and microbatch, per stage; default P/S.
        retain: Part of an activation that is held from the end of I to the end of W, per stage.
        checkpoint: Part of an activation that a recomputed microbatch keeps, per stage.
        static: Weights, gradients, optimizer, per stage.
        budget: Limit of activations and static memory, per device; default: none.
        unit: Label for memory, for instance "GB".
        name: Title for charts and tables.
        time_unit: Label for times, for instance "ms".
        lanes: "device" (each device has its own lanes to host memory) or "pair" (two devices share both).

    Raises:
        ConfigError: For a bad value; its `key` is the parameter.
    """
    p = _count("devices", devices)
    s = p if stages is None else _count("stages", stages)
    m = 2 * p if microbatches is None else _count("microbatches", microbatches)
    split = backward_input is not None or backward_weight is not None
    require_size(s, m, split=split)
    settled = _placement(placement, p, s)
    times = {
        key: None if value is None else _numbers(key, value, s, "one a stage")
        for key, value in (("recompute", recompute), ("overlap", overlap), ("offload", offload), ("reload", reload))
    }
    if reload is not None and offload is None:
        raise ConfigError("the way back from host memory; `offload` is needed too", "reload")
    forwards = _numbers("forward", forward, s, "one a stage")
    half_input, half_weight = _halves(s, forwards, backward, backward_input, backward_weight)
    costs = Costs(
        forward=forwards,
        backward_input=half_input,
        backward_weight=half_weight,
        recompute=times["recompute"] or forwards,
        overlap=times["overlap"],
        p2p=_numbers("p2p", p2p, s - 1, "one a boundary between stages"),
        offload=times["offload"],
        reload=times["reload"] or times["offload"],
        split=split,
    )
    memory = Memory(
        activation=(canonical(Fraction(p, s)),) * s
        if activation is None
        else _numbers("activation", activation, s, "one a stage"),
        retain=_numbers("retain", retain, s, "one a stage", most=1),
        checkpoint=_numbers("checkpoint", checkpoint, s, "one a stage", most=1),
        static=_numbers("static", static, s, "one a stage"),
        budget=None if budget is None else _numbers("budget", budget, p, "one a device", positive=True),
        unit=unit,
    )
    return Problem(p, s, m, settled, costs, memory, name, time_unit, lanes)


def _count(key: str, value: Any) -> int:
    try:
        number = exact(value)
    except ValueError as error:
        raise ConfigError(f"must be a whole number of at least 1, not {shown(value)} ({error})", key) from None
    if number.denominator != 1 or number < 1:
        raise ConfigError(f"must be a whole number of at least 1, not {shown(value)}", key)
    return int(number)


def _placement(value: Any, devices: int, stages: int) -> Placement | None:
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


def is_several(value: Any) -> bool:
    """Return whether a value is a list of some kind (also one of numpy's), not a number, a text or a mapping."""
    return isinstance(value, Iterable) and not isinstance(value, NOT_SEVERAL) and not is_scalar(value)


def first_entries(values: Iterable[Any], most: int) -> list[Any]:
    """Return the entries of a list of some kind; of a longer one than `most`, which may be endless, one more."""
    return list(islice(values, most + 1))


def length_text(values: Iterable[Any], read: Sequence[Any], most: int) -> str:
    """Return as text how many entries `values` have, of which `first_entries` has `read` these."""
    if isinstance(values, (list, tuple)):
        return str(len(values))
    return str(len(read)) if len(read) <= most else "more"


def _number(
    key: str, value: Any, most: int | None = None, *, positive: bool = False, entry: int | None = None
) -> Fraction:
    try:
        number = exact(value)
    except ValueError as error:
        raise ConfigError(f"must be a number, not {shown(value)} ({error})", key, entry=entry) from None
    if number < 0 or (positive and not number) or (most is not None and number > most):
        allowed = "more than 0" if positive else "at least 0" if most is None else f"between 0 and {most}"
        raise ConfigError(f"must be {allowed}, not {shown(value)}", key, entry=entry)
    return number


def _numbers(
    key: str, value: Any, count: int, each: str, most: int | None = None, *, positive: bool = False
) -> tuple[Exact, ...]:
    """Read a number for all, or a list of `count` numbers."""
    if not is_several(value):
        return (canonical(_number(key, value, most, positive=positive)),) * count
    entries = first_entries(value, count)
    if len(entries) != count:
        found = length_text(value, entries, count)
        raise ConfigError(f"a list here needs {count} numbers ({each}); this one has {found}", key)
    numbers = (_number(key, given, most, positive=positive, entry=entry) for entry, given in enumerate(entries))
    return tuple(map(canonical, numbers))


def _halves(
    stages: int, forward: Sequence[Exact], backward: Any, half_input: Any, half_weight: Any
) -> tuple[tuple[Exact, ...], tuple[Exact, ...]]:
    """Return I and W of each stage: as given, or half of B each; B is twice F by default."""
    if half_input is None and half_weight is None:
        if backward is None:
            return tuple(forward), tuple(forward)
        whole = _numbers("backward", backward, stages, "one a stage")
        _require_decimals("backward", whole)
        half = tuple(canonical(to_fraction(time) / 2) for time in whole)
        return half, half
    if backward is not None:
        raise ConfigError("give either `backward` or its halves `backward_input` and `backward_weight`", "backward")
    if half_input is None:
        raise ConfigError("half of the backward; `backward_input` is needed too", "backward_weight")
    if half_weight is None:
        raise ConfigError("half of the backward; `backward_weight` is needed too", "backward_input")
    return (
        _numbers("backward_input", half_input, stages, "one a stage"),
        _numbers("backward_weight", half_weight, stages, "one a stage"),
    )


def _require_decimals(key: str, times: Sequence[Exact]) -> None:
    """Raise ConfigError about `key` for a time that no number of ticks is."""
    try:
        ticks_per_unit(map(to_fraction, times))
    except ValueError as error:
        raise ConfigError(f"times must be decimals; {error}", key) from None

"""The problem in a JSON document: a config with every default, its layers, units and step; and back.

`problem_document` writes it, `read_problem` reads it; of layers `layers_document` and `by_layer` do. Between them stand
two parts of an outcome's document: how its layers were cut, and in which order microbatches are fed. A key is unsaid
where the document leaves it out, as it has no meaning there: `backward` of forwards alone, say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

from pipesched.checks import require_name, require_whole, shown
from pipesched.documents.json_text import get, nearly_equal, picked, plain_values, require_finite
from pipesched.errors import ConfigError
from pipesched.pipeline.layers.layers import KEYS, PARTS, RULES, Amount, Blocks
from pipesched.pipeline.plan.step import SIDE_SIZES, item_values
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.costs import AVERAGED, HALVES, SIZES, STATIC_PARTS, STEP_TIMES
from pipesched.pipeline.problem.declared import BY_KEY, BY_NAME, FIELDS, SECTIONS, keys_of
from pipesched.pipeline.problem.problem import PLAIN, Problem
from pipesched.pipeline.problem.quantities import plain, simplest
from pipesched.pipeline.problem.units import FORWARD_ONLY, WHOLE_ONLY, unit_values
from pipesched.results.outcome import CutChoice, Outcome
from pipesched.schedulers.options import ORDER
from pipesched.schedulers.ordering import BEST, Ordering, require_order
from pipesched.schedulers.registry import FAMILIES, family


def kept_said(problem: Problem) -> bool:
    """Return whether a document says weights, gradients and states: where there is a step, or some memory of them."""
    return problem.has_step or any(any(getattr(problem.memory, key)) for key in STATIC_PARTS)


BLOCKS = "blocks"  # true where the layers are stages that were given
BY_LAYER = ("layers", *PARTS, "layout", BLOCKS)


def layers_document(problem: Problem) -> dict[str, Any]:
    """Return the layers of a problem, if it has them, as a config gives them, every default filled in."""
    layers = problem.layers
    if layers is None:
        return {}
    unsaid = problem.costs.unsaid
    if problem.mode == FORWARD_ONLY:
        unsaid |= {"backward", *HALVES, "recompute"}
    if not kept_said(problem):
        unsaid |= {*STATIC_PARTS}
    parts: dict[str, dict[str, Any]] = {part: {} for part in layers.parts_said}
    for part, key in product(parts, (key for key in KEYS if key not in unsaid)):
        if (value := getattr(getattr(layers, part), key)) is not None:
            parts[part][key] = _plain(value)
    if layers.p2p is not None and layers.count != len(layers.layout):
        parts["layer"]["p2p"] = _plain(layers.p2p)
    blocks = {BLOCKS: True} if layers.blocks else {}
    return {"layers": layers.count, **parts, "layout": layers.layout_said, **blocks}


def _plain(amount: Amount) -> Any:
    """Return the number of a layer, or those of all, with those of each microbatch in rows."""
    return [_plain(entry) for entry in amount] if isinstance(amount, tuple) else plain(amount)


def by_layer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return make_problem's parameters of a document with layers: those of layers, without what repeats of stages."""
    layer = dict(values["layer"]) if isinstance(values.get("layer"), dict) else {}
    of_stages = {key for key in KEYS if key not in AVERAGED or key in layer}
    kept = {key: value for key, value in values.items() if key not in of_stages and key != BLOCKS}
    if "p2p" in layer:
        kept["p2p"] = layer.pop("p2p")
    of_blocks = Blocks(layer) if values.get(BLOCKS) else layer
    return {**kept, **({"layer": of_blocks} if layer else {})}


TRIED = "tried"  # of slices: which numbers of them a family tried, each with its makespan
CUT = "cut"  # how layers were cut, where that was open
ORDERING = "ordering"  # what is known of the best order


def order_document(outcome: Outcome) -> dict[str, Any]:
    """Return in which order microbatches are fed, where they differ or an order was asked for."""
    is_said = outcome.problem.has_units or outcome.ordering is not None
    return ordering_document(outcome.ordering or Ordering(outcome.order)) if is_said else {}


def cut_document(cut: CutChoice | None) -> dict[str, Any]:
    """Return how layers were cut, where that was open."""
    if cut is None:
        return {}
    planned = {} if cut.planned is None else {"planned": cut.planned}
    return {CUT: {"layout": [*cut.layout], "rule": cut.rule, "tried": cut.tried, "all": cut.all, **planned}}


def read_cut(content: Mapping[str, Any]) -> CutChoice | None:
    """Return how a document says that layers were cut, None where it says nothing. Raises ConfigError."""
    if CUT not in content:
        return None
    said = get(content, CUT, dict)
    layout = tuple(require_whole(count, CUT, entry="layout") for count in get(said, "layout", list))
    numbers = {key: said.get(key) for key in ("tried", "all", "planned")}
    for key, number in numbers.items():
        if number is not None or key == "tried":
            require_whole(number, f"{CUT}.{key}", least=1)
    return CutChoice(layout, require_name(RULES, said.get("rule"), "rule", f"{CUT}.rule"), **numbers)


def ordering_document(ordering: Ordering) -> dict[str, Any]:
    """Return an order, and of the best one what is known of it: how it was found, and what the rules take."""
    said = {ORDERING: picked(ordering, "exact", "tried", "given", "verl")} if ordering.rule == BEST else {}
    return {ORDER: [*ordering.order], **said}


def read_ordering(content: Mapping[str, Any], microbatches: int | None = None) -> Ordering | None:
    """Return the order of a document or a row, the best with what is known of it; None for none. Raises ConfigError."""
    order = content.get(ORDER)
    if order is None:
        return None
    if not isinstance(order, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in order):
        raise ConfigError(f"must list microbatches, not {shown(order)}", ORDER)
    fed = require_order(order, len(order) if microbatches is None else microbatches)
    if ORDERING not in content:
        return Ordering(fed)
    said = content[ORDERING] if isinstance(content[ORDERING], dict) else {}
    if not isinstance(said.get("exact"), bool):
        raise ConfigError(f"must say whether the order is `exact`, not {shown(content[ORDERING])}", ORDERING)
    makespans = {key: said[key] for key in ("given", "verl") if said.get(key) is not None}
    for key, makespan in makespans.items():
        makespans[key] = plain_values(require_finite(makespan, f"{ORDERING}.{key}"))
    return Ordering(fed, BEST, said["exact"], require_whole(said.get("tried"), f"{ORDERING}.tried"), **makespans)


def wrong_order(outcome: Outcome) -> Iterator[str]:
    """Yield a sentence where the schedule does not feed the microbatches in the order that its document says."""
    schedule = outcome.schedule
    if outcome.algorithm in FAMILIES and family(outcome.algorithm).looks_at_each:
        return
    index, placement = schedule.plan.index, schedule.problem.settled_placement
    row = index.row("F", 0)[:: index.slices]
    ways: dict[bool, list[int]] = {False: [], True: []}
    for microbatch in outcome.order:
        ways[placement.is_second(microbatch, index.microbatches)].append(schedule.start_ticks[row[microbatch]])
    if any(starts != sorted(starts) for starts in ways.values()):
        yield f"order is {shown([*outcome.order])} in the document; its schedule feeds {shown([*schedule.order])}"


MAY_BE_NULL = [one.key for one in FIELDS if one.optional and one.key != "costs.backward"]  # keys of a document
SAID_APART = ("name", "time_unit", "lanes", "mode")  # of texts
MOST_PLACES = 30  # digits before or behind the point


def problem_document(problem: Problem) -> dict[str, Any]:
    """Return the problem as a config with every default filled in."""
    unsaid, queues = {key for key in ("kv", "receive") if not getattr(problem.memory, key)}, problem.messages
    unsaid.update(() if kept_said(problem) else STATIC_PARTS)
    of_units = unit_values(problem.sizes, problem.slices, problem.mode)  # without what is as of whole alike ones
    if problem.slices.tried:
        of_units["slices"][TRIED] = [list(pair) for pair in problem.slices.tried]
    of_step, shard = dict[str, Any](), problem.shard
    if shard is not None:
        ahead = list(shard.ahead) if isinstance(shard.ahead, tuple) else shard.ahead
        late = {"gather": shard.gather} if shard.gathers_each else {}
        of_step = {
            "shard": {"level": shard.level, "ranks": shard.ranks, "ahead": ahead, "reduce": shard.reduce, **late},
            "step": {"clip": problem.clip},
            "side": [item_values(item, plain) for item in problem.side],
        }
    # costs of forwards and of slices are only theirs, of a step those that it has
    unused = problem.costs.unsaid | (set() if problem.has_step else {*STEP_TIMES, "tied"})
    refused = WHOLE_ONLY if problem.slices.count > 1 else ()
    costs = [key for key in keys_of("costs") if key not in (*unused, *refused)]
    if problem.mode == FORWARD_ONLY:
        costs = ["forward", "p2p", *(("gather",) if problem.has_step else ())]
    return {
        **picked(problem, "name", "devices", "stages"),
        "microbatches": problem.batches,
        **({"rounds": problem.rounds} if problem.rounds > 1 else {}),
        "placement": "auto" if problem.placement is None else problem.placement.written,
        **picked(problem, "time_unit", "lanes", *(name for name in PLAIN if name not in SAID_APART)),
        **layers_document(problem),
        **({} if problem.speed is None else {"speed": [*map(plain, problem.speed)]}),
        **({} if problem.links is None else {"links": [[*map(plain, row)] for row in problem.links]}),
        **({} if queues is None else {"messages": {"queue": queues.queue, "order": queues.order}}),
        **of_units,
        "costs": {key: _value(getattr(problem.costs, key)) for key in costs},
        "memory": {key: _value(getattr(problem.memory, key)) for key in keys_of("memory") if key not in unsaid},
        **of_step,
    }


def _value(value: Any) -> Any:
    """Return a label or a number as it is; of entries one number where all are one (0: there is none), or rows."""
    if not isinstance(value, tuple):
        return value if value is None or isinstance(value, str) else plain(value)
    rows: list[Any] = [[*map(plain, entry)] if isinstance(entry, tuple) else plain(entry) for entry in value]
    is_one = bool(rows) and not isinstance(rows[0], list) and all(row == rows[0] for row in rows)
    return rows[0] if is_one else rows or 0


def problem_values(content: dict[str, Any]) -> dict[str, Any]:
    """Return what a document says of a problem, exactly, by the parameters of make_problem. Raises ConfigError."""
    values: dict[str, Any] = {}
    for section, read in READERS.items():
        if section == "step" and section not in content:  # others are needed
            continue
        for key, value in (get(content, section, dict) if section else content).items():
            full = f"{section}.{key}" if section else key
            _require_no_null(full, value)
            if full in BY_KEY:
                values[BY_KEY[full].name] = _exact_value(full, value, read)
            elif full == BLOCKS:
                values[BLOCKS] = value is True
            elif section or key not in SECTIONS:  # sections stand among the keys at the top
                raise ConfigError(f"problem.{full}: unknown key; known here are {', '.join(keys_of(section))}")
    if "devices" not in values:
        raise ConfigError("'devices' is missing in 'problem'")
    if values.get("side") == []:  # of a step without side work
        del values["side"]
    return values


def _require_no_null(key: str, value: Any) -> None:
    inside = value.items() if isinstance(value, dict) else ()
    for name, one in ((key, value), *((f"{key}.{inner}", one) for inner, one in inside)):
        if one is None and name not in MAY_BE_NULL:
            raise ConfigError(f"problem.{name}: must not be null")


def _exact_value(key: str, value: Any, read: Callable[[Any], Any]) -> Any:
    """Return the value of a key as its field takes it from a config, which has no `tried` of slices."""
    if key == "slices" and isinstance(value, dict):
        value = {name: one for name, one in value.items() if name != TRIED}
    return BY_KEY[key].shape.in_file(_entries_or_numbers(value, _exact_size if key == "speed" else read))


def read_problem(content: dict[str, Any]) -> Problem:
    """Return the problem of a document. Raises ConfigError that says where in it the value at fault stands."""
    try:
        values = problem_values(content)
        problem = make_problem(**{key: value for key, value in values.items() if key not in BY_LAYER})
        if "layers" in values:  # which must add up to the stages; retain, means, but for the last digits
            made = make_problem(**by_layer(values))
            # recompute and checkpoint may be said of stages alone
            costs = replace(made.costs, recompute=problem.costs.recompute)
            memory = replace(made.memory, checkpoint=problem.memory.checkpoint)
            theirs, ours = ([*map(float, part.memory.retain)] for part in (problem, made))
            if memory.retain != problem.memory.retain and nearly_equal(theirs, ours):
                problem = replace(problem, memory=replace(problem.memory, retain=memory.retain))
            if replace(made, costs=costs, memory=memory) != problem or made.layers is None:
                raise ConfigError("do not make the costs and the memory of the stages", "layers")
            problem = replace(problem, layers=replace(made.layers, blocks=values.get(BLOCKS, False)))
        slices = content.get("slices")
        tried = slices.get(TRIED, []) if isinstance(slices, dict) else []
        if not isinstance(tried, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in tried):
            what = "must list numbers of slices, each with its makespan"
            raise ConfigError(f"{what}, not {shown(tried)}", "slices", entry=TRIED)
        for count, makespan in tried:
            if not isinstance(count, int) or isinstance(count, bool):
                raise ConfigError(f"must be numbers of slices, not {shown(count)}", "slices", entry=TRIED)
            require_finite(makespan, "slices.tried")
        return replace(problem, slices=replace(problem.slices, tried=tuple(map(tuple, plain_values(tried)))))
    except ConfigError as error:
        field = BY_NAME.get(error.key or "")
        raise error.at(f"problem.{field.key}" if field else "problem") from None


def _entries_or_numbers(value: Any, read: Callable[[int | Decimal], Any]) -> Any:
    """Return a value with its numbers exact: of a mapping, by what each of its entries is."""
    if isinstance(value, dict):
        return {
            key: _entries_or_numbers(entry, _exact_size if key in (*SIZES, *SIDE_SIZES) else exact_time)
            for key, entry in value.items()
        }
    if isinstance(value, list):
        return [_entries_or_numbers(entry, read) for entry in value]
    return read(value) if isinstance(value, (int, Decimal)) and not isinstance(value, bool) else value


def exact_time(value: int | Decimal) -> Fraction:
    """Return a time that stands in a document. Raises ConfigError for one that is out of range."""
    if value and not -MOST_PLACES < Decimal(value).adjusted() < MOST_PLACES:
        raise ConfigError(f"{shown(value)} is out of range")
    return Fraction(value)


def _exact_size(value: int | Decimal) -> Fraction:
    time_or_size = exact_time(value)  # checks the range
    return simplest(value) if isinstance(value, Decimal) else time_or_size


READERS: dict[str, Callable[[Any], Any]] = {  # of the numbers of a problem, by its sections
    "": lambda value: value,
    "costs": exact_time,
    "memory": _exact_size,
    "step": lambda value: value,
}

"""The corpus: fixed problems and commands, with what an earlier build answered, and where this build answers otherwise.

`tests/data/corpus.json.gz` holds both, problems as plain values of `make_problem`. `scripts/corpus.py` writes it anew,
`tests/test_corpus.py` compares. Times and memory are exact, as texts of fractions; floats are public figures.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from pipesched.analysis.explain import explain
from pipesched.documents.explanation import explanation_document
from pipesched.errors import PipeschedError
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.pipeline.check.check import over_budget, violations
from pipesched.pipeline.plan.metrics import HELD
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem
from pipesched.results.outcome import Outcome, run

FILE = Path(__file__).parent / "data" / "corpus.json.gz"
MOST_TEXT = 1_600  # letters of orders that stand in full
MOST_EXPLAINED = 160  # slots, beyond which that takes long
DIGITS = 16  # of a digest
Answers = dict[str, Any]
Difference = tuple[str, Any, Any]  # the path of keys, what was answered, what is answered


@cache
def read_corpus() -> dict[str, Any]:
    """Return the corpus: `problems` with their answers, and `documents` and `open_cuts`, those of commands."""
    found: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
    return found


def write_corpus(corpus: Mapping[str, Any]) -> None:
    """Write the corpus: the same bytes for the same answers."""
    text = json.dumps(corpus, separators=(",", ":"), ensure_ascii=False)
    FILE.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def plain(value: Any) -> Any:
    """Return a value of a config as JSON has it: a Decimal and a Fraction as a mapping with its text."""
    if isinstance(value, (Decimal, Fraction)):
        return {type(value).__name__: str(value)}
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return [*map(plain, value)] if isinstance(value, (list, tuple)) else value


def given(value: Any) -> Any:
    """Return what `plain` made JSON of."""
    if isinstance(value, list):
        return [*map(given, value)]
    if not isinstance(value, Mapping):
        return value
    if [*value] in (["Decimal"], ["Fraction"]):
        return Decimal(value["Decimal"]) if "Decimal" in value else Fraction(value["Fraction"])
    return {key: given(one) for key, one in value.items()}


def digest(value: Any) -> str:
    """Return the digest of a text, or of what JSON has."""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()[:DIGITS]


def answers_of(config: Mapping[str, Any], runs: Sequence[Sequence[Any]]) -> Answers:
    """Return what this build says of a problem, and of each run: the name of a family, and its options."""
    problem = make_problem(**given(config))
    return {
        "problem": _problem(problem),
        "runs": [{"run": [name, options], **_run(problem, name, options)} for name, options in runs],
    }


def _problem(problem: Problem) -> Answers:
    """Return what holds for every schedule of a problem on its own placement."""
    if problem.placement is None:
        return {"stages": problem.stages}
    scale = problem.grains.per_unit
    devices = range(problem.devices)
    return {
        "stages": problem.stages,
        "least_capacity": [str(Fraction(least_capacity(problem, device), scale)) for device in devices],
        "static": [str(Fraction(problem.static_grains(device), scale)) for device in devices],
    }


def _run(problem: Problem, name: str, options: Mapping[str, Any]) -> Answers:
    try:
        outcome = run(problem, name, **options)
    except PipeschedError as error:
        return {"refused": type(error).__name__, "says": str(error)}
    return _outcome(outcome)


def _outcome(outcome: Outcome) -> Answers:
    """Return all that is compared of a schedule."""
    schedule, plan = outcome.schedule, outcome.schedule.plan
    orders = ["  ".join(map(str, plan.slots(device))) for device in range(len(plan.orders))]
    is_short = sum(map(len, orders)) <= MOST_TEXT
    exact = _exact(outcome)
    figures = {key: value for key, value in outcome.metrics.items() if exact.get(key) != _text(value)}
    return {
        "slots": sum(map(len, plan.orders)),
        "orders": orders if is_short else digest(orders),
        "beside": _beside(plan),
        "times": digest(_times(schedule)),
        "note": plan.note,
        "fed": list(outcome.order),
        **exact,
        "bound_reason": outcome.bound.reason,
        "status": outcome.status.value,
        "metrics": figures,
        "violations": [*violations(schedule)],
        "over_budget": over_budget(schedule),
        **({"explained": _explained(outcome)} if sum(map(len, plan.orders)) <= MOST_EXPLAINED else {}),
    }


def _text(value: Any) -> Any:
    """Return a public figure as `_exact` has it, where it is whole."""
    if isinstance(value, list):
        return [*map(_text, value)]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _exact(outcome: Outcome) -> Answers:
    """Return times and memory as texts of fractions."""
    schedule = outcome.schedule
    ticks, grains = schedule.problem.ticks.per_unit, schedule.problem.grains.per_unit

    def listed(values: Sequence[int], scale: int) -> list[str]:
        return [str(Fraction(value, scale)) for value in values]

    times = {
        "makespan": schedule.makespan_ticks, "span": schedule.span_ticks, "lower_bound": outcome.bound.ticks,
        "ideal": schedule.ideal_ticks,
    }  # fmt: skip
    found: Answers = {key: str(Fraction(value, ticks)) for key, value in times.items()}
    found |= {key: listed(getattr(schedule, f"{key}_ticks"), ticks) for key in ("busy", "idle", "useful")}
    found["peak_memory"] = listed(schedule.peak_grains, grains)
    found["memory"] = listed(schedule.memory_grains, grains)
    if schedule.problem.has_step:
        found |= {f"peak_{what}": listed(schedule.peak_grains_of(what), grains) for what in HELD}
    return found


def _beside(plan: Plan) -> Any:
    """Return what lanes, networks and waits are, as texts; their digest where that is long."""
    name, index = plan.slot, plan.index
    lanes = ["  ".join(map(str, map(name, lane))) for lane in chain(*plan.lanes)]
    network = [
        "  ".join(f"{index.op(number)}>{'' if after < 0 else name(after)}" for number, after in program)
        for program in plan.network
    ]
    waits = [f"{index.op(before)}>{index.op(after)}" for before, after in plan.waits]
    found = {key: texts for key, texts in (("lanes", lanes), ("network", network), ("waits", waits)) if texts}
    return found if sum(map(len, chain(*found.values()))) <= MOST_TEXT else digest(found)


def _times(schedule: Schedule) -> list[list[str]]:
    """Return the start and the end of all that runs, in its order, as texts of fractions."""
    ticks = schedule.problem.ticks.per_unit
    return [
        [f"{Fraction(schedule.start_ticks[one], ticks)} {Fraction(schedule.end_ticks[one], ticks)}" for one in machine]
        for machine in schedule.plan.machines
    ]


def _explained(outcome: Outcome) -> Answers:
    """Return why a schedule is so long: idle time in all and by class, and the digest of all else."""
    found = explanation_document(explain(outcome))
    classes = {key: [row[key] for row in found["devices"]] for key in found["devices"][0] if key != "idle"}
    return {
        "idle": found["idle"],
        "classes": {key: row for key, row in classes.items() if any(row)},
        "path": len(found["critical_path"]),
        "moves": len(found["moves"]),
        "all": digest(found),
    }


def differences(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    """Yield where two answers differ: at each path of keys what was, and what is."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for entry, (was, now) in enumerate(zip(old, new, strict=True)):
            yield from differences(was, now, f"{path}[{entry}]")
    elif old != new or type(old) is not type(new):
        yield path, old, new


def problem_differences(number: int) -> list[Difference]:
    """Return where this build answers otherwise about one problem of the corpus."""
    entry = read_corpus()["problems"][number]
    runs = [answer["run"] for answer in entry["runs"]]
    answers = json.loads(json.dumps(answers_of(entry["config"], runs)))
    found = [*differences(entry["problem"], answers["problem"], f"problem {number}")]
    for was, new in zip(entry["runs"], answers["runs"], strict=True):
        name, options = was["run"]
        said = "".join(f" {key}={value}" for key, value in options.items())
        place = f"problem {number}, {name}{said}"
        found += [(f"{place}: {path}", old, now) for path, old, now in differences(was, new)]
    return found


def in_words(found: Sequence[Difference], most: int = 30) -> str:
    """Return differences as lines: the place, what was answered, what is answered."""
    lines = [f"{path}: {_cut(old)} -> {_cut(new)}" for path, old, new in found[:most]]
    return "\n".join([*lines, f".. and {len(found) - most} more"] if len(found) > most else lines)


def _cut(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}.."

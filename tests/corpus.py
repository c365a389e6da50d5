"""The corpus: fixed problems, commands and drawn problems, with what an earlier build answered, and what this one does.

`tests/data/corpus.json.gz` holds both, problems as plain values of `make_problem`. `scripts/corpus.py` writes it anew,
`tests/test_corpus.py` compares. Times and memory are exact, as texts of fractions; floats are public figures. Commands
run with a clock that stands still, so that no limit of a search is reached: each ends by a proof, or with all tried.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from functools import cache
from hashlib import sha256
from itertools import chain
from math import inf
from pathlib import Path
from random import Random
from shutil import copytree
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, given as drawing, seed, settings, strategies as st
from typer.testing import CliRunner

from pipesched import Outcome, PipeschedError, Plan, Problem, Schedule, explain, make_problem, run
from pipesched.cli.app import app
from pipesched.core.cpsat import Limits, SearchAnswer, TaskModel
from pipesched.documents.explanation import explanation_document
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.pipeline.check.check import over_budget, violations
from pipesched.pipeline.plan.metrics import HELD
from pipesched.schedulers.registry import FAMILIES
from tests.oracle.drawn import PLACEMENTS, Config, configs, small_configs, step_configs

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


def answers_of(config: Mapping[str, Any], runs: Sequence[Sequence[Any]], *, explained: bool = True) -> Answers:
    """Return what this build says of a problem, and of each run: the name of a family, its options; and reasons."""
    problem = make_problem(**given(config))
    return {
        "problem": _problem(problem),
        "runs": [{"run": [name, options], **_run(problem, name, options, explained)} for name, options in runs],
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
        "static": [str(Fraction(problem.static_grains[device], scale)) for device in devices],
    }


def _run(problem: Problem, name: str, options: Mapping[str, Any], explained: bool) -> Answers:
    try:
        outcome = run(problem, name, **options)
    except PipeschedError as error:
        return {"refused": type(error).__name__, "says": str(error)}
    return _outcome(outcome, explained)


def _outcome(outcome: Outcome, explained: bool) -> Answers:
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
        "violations": [*violations(schedule)] if explained else [],  # `run` has checked it
        "over_budget": over_budget(schedule),
        **({"explained": _explained(outcome)} if explained and sum(map(len, plan.orders)) <= MOST_EXPLAINED else {}),
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


def problem_differences(number: int, *, explained: bool = True) -> list[Difference]:
    """Return where this build answers otherwise about one problem of the corpus, and on request why times are so."""
    entry = read_corpus()["problems"][number]
    runs = [answer["run"] for answer in entry["runs"]]
    answers = json.loads(json.dumps(answers_of(entry["config"], runs, explained=explained)))
    found = [*differences(entry["problem"], answers["problem"], f"problem {number}")]
    for was, new in zip(entry["runs"], answers["runs"], strict=True):
        name, options = was["run"]
        said = "".join(f" {key}={value}" for key, value in options.items())
        place = f"problem {number}, {name}{said}"
        asked = {key: value for key, value in was.items() if explained or key != "explained"}
        found += [(f"{place}: {path}", old, now) for path, old, now in differences(asked, new)]
    return found


def in_words(found: Sequence[Difference], most: int = 30) -> str:
    """Return differences as lines: the place, what was answered, what is answered."""
    lines = [f"{path}: {_cut(old)} -> {_cut(new)}" for path, old, new in found[:most]]
    return "\n".join([*lines, f".. and {len(found) - most} more"] if len(found) > most else lines)


def _cut(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}.."


ROOT = Path(__file__).parents[1]
SETTINGS = ("LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "PYTHONIOENCODING", "PYTHONUTF8")
MOST_OF_AN_ANSWER = 6_000  # letters of an answer that stands in full
TAKEN = re.compile(r'"seconds": [0-9.e-]+')
LONG = re.compile(r"\d+\.\d{8,}(?:e[+-]?\d+)?")  # a float whose last digits depend on Python: its sums, from 3.12 on
HEAD = "devices: 2\nmicrobatches: 4\n"
LAYER = "{forward: 2, backward: 4, activation: 1, static: 1}"
LAYERS = f"{HEAD}layers: 6\nlayer: {LAYER}\nlast: {{forward: 3, backward: 3}}\n"
FILES = {
    "model.yaml": f"{HEAD}time_unit: ms\ncosts: {{forward: 1, backward_input: 1, backward_weight: 1}}\n",
    "lengths.txt": "9 7 6, 5\n4 4 3 2\n",
    "layers.yaml": LAYERS,
    "given.yaml": f"{LAYERS}layout: [4, 2]\n",
    "gpus.yaml": "model: llama-3-8b\nhardware: h100-sxm\n"
    "parallel: {gpus: 8, tensor: [1, 2], pipeline: [1, 2, 4], chunks: 1, context: 1}\n"
    "batch: {sequence: 4096, global: 32, micro: [1, 2]}\n",
    "block.yaml": "period: 3\nforward: [0, 1]\nbackward_input: [4, 2]\n",
    "dot.txt": "x = a * b + c * d\ny = x * e + f\n",
}

SMALL = "--stages 4 --forward 1 --backward 2 --placement linear"
TINY = "--devices 2 --stages 2 --microbatches 2"
CONFIGS = (
    "autopipe", "building-block", "long-by-work", "long-sequences", "memory-gb", "offload", "one-device", "packed",
    "sharded", "slow-network", "uneven-llm", "vision-encoder", "whole-step",
)  # fmt: skip
COMPARED = ("one-device", "autopipe", "long-sequences", "packed", "whole-step")
GRAPHS = ("arf", "dct8", "dot6", "ewf", "fft", "fir16-symmetric", "hal", "seed")
BOTH = ("autopipe", "memory-gb", "offload", "packed", "sharded", "vision-encoder", "whole-step", "uneven-llm")
DOCUMENTS = (
    "run --json",
    *(f"run configs/{name}.yaml --json" for name in CONFIGS),
    "run configs/megatron-interleaved.yaml --algo interleaved --group-size 8 --json",
    *(f"run {name} configs/autopipe.yaml --json" for name in ("zb-h1", "zb-auto", "v-half", "dualpipe-v", "hanayo")),
    "run 1f1b configs/offload.yaml --offload full --json",
    "run 1f1b configs/offload.yaml --recompute 2 --json",
    "run 1f1b configs/packed.yaml --order best --json",
    "run 1f1b configs/packed.yaml --order verl --json",
    "run 1f1b configs/vision-encoder.yaml --side-rule first --json",
    "run list configs/uneven-llm.yaml --priority descendants --tie random --seed 3 --json",
    "run 1f1b given.yaml --json",
    f"run dualpipe {TINY} --json",
    f"run zb-v {TINY} --placement linear --json",
    *(f"compare configs/{name}.yaml --json" for name in COMPARED),
    "compare 1f1b zb-h1 naive configs/memory-gb.yaml --json",
    "compare 1f1b interleaved configs/offload.yaml --recompute full --json",
    "compare 1f1b zb-h1 given.yaml --json",
    "compare 1f1b naive zb-h1 model.yaml --sweep microbatches=2,4,8 --json",
    "compare 1f1b zb-h1 configs/slow-network.yaml --sweep p2p=0,1,2 --json",
    "compare model.yaml --pareto --json",
    "compare configs/building-block.yaml --pareto --json",
    f"solve {SMALL} --mem-budget 2 --json --workers 1 --quiet",
    "solve --mem-budget 4 --json --workers 1 --quiet",
    f"solve {TINY} --frontier --json --workers 1 --quiet",
    f"solve {SMALL} --frontier --json --workers 1 --quiet",
    "solve configs/one-device.yaml --json --workers 1 --quiet",
    "solve configs/autopipe.yaml --json --workers 1 --quiet",
    "solve given.yaml --json --workers 1 --quiet",
    f"solve {TINY} --mem-budget 0.1 --workers 1 --quiet",
    *(f"explain configs/{name}.yaml --json" for name in (*BOTH, "long-by-work")),
    "explain 1f1b given.yaml --json",
    "explain 1f1b model.yaml --why 1F1 --json",
    "robust 1f1b,zb-h1 model.yaml --samples 20 --seed 1 --json",
    "robust 1f1b wave=block.yaml model.yaml --samples 10 --noise 0.1 --json",
    "robust 1f1b interleaved configs/whole-step.yaml --samples 10 --straggler 1.5 --json",
    "pack lengths.txt --ranks 2 --cap 12 --microbatches 2 -c model.yaml --json --quiet",
    "pack lengths.txt --ranks 2 --cap 12 --microbatches auto -c model.yaml --attention 0.3 --algo zb-h1 --json --quiet",
    "pack lengths.txt --ranks 2 --cap 12 --microbatches 2 -c model.yaml --quiet -o rank.yaml; run rank.yaml --json",
    *(f"hls configs/hls/{name}.txt --json" for name in GRAPHS),
    "hls configs/hls/article.yaml --json",
    "hls dot.txt --solve --json",
    "hls configs/hls/hal.txt --solve --json",
    "hls configs/hls/hal.txt --compare --json",
    "hls configs/hls/hal.txt --explain --json",
    "hls configs/hls/ewf.txt --mul 2 --add 2 --latency mul=2 --pipelined mul --priority descendants --json",
    "hls configs/hls/hal-loop.txt --pipeline --json",
    "hls configs/hls/fir-loop.txt --pipeline --json",
    "hls configs/hls/seed.txt --solve --json",
    *(f"export configs/{name}.yaml --to {form}" for name in BOTH for form in ("json", "pytorch-csv", "chrome-trace")),
    "export configs/whole-step.yaml --to pytorch-csv-comms",
    "export configs/sharded.yaml --to pytorch-csv-comms",
    "export -a interleaved --devices 2 --chunks 2 --microbatches 2 --to pytorch-csv-comms",
    "export -a zb-h1 given.yaml --to pytorch-csv",
    *(
        f"run configs/{name}.yaml --quiet -o out.json; check out.json; show out.json --json; show out.json --width 100"
        " --ascii --no-color; explain out.json --json"
        for name in ("autopipe", "offload", "packed", "whole-step")
    ),
    "export -a zb-h1 model.yaml -o out.csv; check out.csv -c model.yaml --json; show out.csv -c model.yaml --json;"
    " compare 1f1b mine=out.csv model.yaml --json",
    "export -a 1f1b model.yaml -o out.csv; check out.csv -c configs/memory-gb.yaml",
    "init",
    "init --schema",
    "init --from-model llama-3-8b --hardware h100-sxm --gpus 8",
    "list -c configs/autopipe.yaml --json",
    "list -c configs/packed.yaml --json",
    "list --json",
    "list --models --json",
    "list --hardware --json",
    "list zb-h1 interleaved --json",
)  # fmt: skip
OPEN_CUTS = (
    "run 1f1b layers.yaml --json",
    "run interleaved layers.yaml --json",
    "run 1f1b layers.yaml --recompute 1 --json",
    "run zb-h1 configs/real-model.yaml --microbatches 8 --json",
    "run 1f1b configs/measured-layers.yaml --microbatches 8 --json",
    "compare layers.yaml --json",
    "compare 1f1b interleaved looped-bfs configs/real-model.yaml --microbatches 8 --json",
    "compare 1f1b interleaved layers.yaml --sweep chunks=1,2 --json",
    "explain 1f1b layers.yaml --json",
    "solve layers.yaml --json --workers 1 --quiet",
    "export -a 1f1b layers.yaml --to json",
    "robust 1f1b interleaved layers.yaml --samples 10 --json",
    "estimate configs/llama-3-70b.yaml --no-trust --json",
    "estimate configs/mixtral-8x7b.yaml --no-trust --json",
    "estimate configs/qwen3-30b-a3b.yaml --no-trust --json",
    "estimate configs/mixture-pairs.yaml --no-trust --json",
    "estimate configs/llama-3-70b.yaml --no-trust --microbatches 16 --algo interleaved --chunks 2 --json",
    "run configs/qwen3-30b-a3b.yaml --microbatches 4 --json",
    "tune gpus.yaml 1f1b zb-h1 --top 2 --jobs 1 --time-limit 100000 --quiet --json",
)
KINDS: Mapping[str, Sequence[str]] = {"documents": DOCUMENTS, "open_cuts": OPEN_CUTS}


def answer(commands: str) -> list[dict[str, Any]]:
    """Return what each of the commands answers in one folder, which has the configs of the repository."""
    with _folder():
        return [_answer(shlex.split(command)) for command in commands.split("; ")]


def _answer(command: Sequence[str]) -> dict[str, Any]:
    settings = {**dict.fromkeys(SETTINGS), "COLUMNS": "100"}
    result = CliRunner().invoke(app, [*command], env=settings, prog_name="pipesched")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    printed = LONG.sub(lambda found: f"{float(found[0]):.10g}", TAKEN.sub('"seconds": 0', result.stdout))
    found = {"code": int(result.exit_code), "error": result.stderr, "digest": digest(printed)}
    return {**found, "printed": _document(printed)} if len(printed) <= MOST_OF_AN_ANSWER else found


def _document(printed: str) -> Any:
    try:
        return json.loads(printed)
    except ValueError:
        return printed


@contextmanager
def _folder() -> Iterator[None]:
    """Work in a folder of its own, in which time does not go by, and CP-SAT has one thread."""
    before, solve = Path.cwd(), TaskModel.solve

    def alone(model: TaskModel, limits: Limits, *told: Any) -> SearchAnswer:
        return solve(model, limits._replace(workers=1, seconds=inf), *told)

    with (
        TemporaryDirectory() as folder,
        patch("pipesched.core.clock.monotonic", lambda: 0.0),
        patch.object(TaskModel, "solve", alone),
        patch("pipesched.cli.progress.AFTER", 3600.0),
    ):
        copytree(ROOT / "configs", Path(folder) / "configs")
        for name, text in FILES.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def document_differences(kind: str, commands: str) -> list[Difference]:
    """Return where this build answers some commands otherwise."""
    now = json.loads(json.dumps(answer(commands)))
    return [*differences(read_corpus()[kind][commands], now, commands)]


def answered(kinds: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    """Return what this build answers to the commands of each kind."""
    return {kind: {one: answer(one) for one in commands} for kind, commands in kinds.items()}


ANY = (None, None, None, *PLACEMENTS)  # where families choose, all of them run
OWN = (None, None, "linear", "loop", "v", "list")
TABLES = (
    "forward",
    "backward",
    "backward_input",
    "backward_weight",
    "recompute",
    "reload",
    "offload",
    "activation",
    "p2p",
)
LONGEST = 0.1  # seconds of a run that is kept
Drawn = tuple[str, Config]


def drawn_problems() -> list[Drawn]:
    """Return 200 problems, each with the name of what it has."""
    sizes: dict[str, Any] = {"most_devices": 4, "most_microbatches": 5}
    found = [
        *_named("alike", 30, configs(ANY, least=1, most_devices=4, most_microbatches=9), _alike),
        *_named("alike, budget", 14, configs(ANY, least=1, most_devices=4, most_microbatches=8), _alike_in_budget),
        *_named("unlike", 20, configs(ANY, **sizes)),
        *_named("unlike, budget", 10, configs(ANY, least=1, **sizes), _in_budget),
        *_named("small, budget", 8, small_configs()),
        *_named("slices", 14, configs(("linear", None, "loop"), slices=True, **sizes)),
        *_named("forward", 6, configs(OWN, forward_only=True, **sizes)),
        *_named("forward, slices", 6, configs(OWN, forward_only=True, slices=True, **sizes)),
        *_named("saving", 12, configs(OWN, saving=True, **sizes)),
        *_named("pairs", 10, configs(ANY, pairs=True, **sizes)),
        *_named("step", 16, step_configs(OWN, has_side=False, most_devices=4)),
        *_named("step, side", 12, step_configs(OWN, has_side=True, most_devices=4)),
        *_named("step, weights", 8, step_configs(OWN, levels=["weights"], most_devices=4)),
        *_named("step, slices", 4, step_configs(("linear",), slices=True)),
        *_named("step, pairs", 3, step_configs(OWN, pairs=True)),
        *_named("step, saving", 3, step_configs(OWN, saving=True)),
        *_named("layers", 12, st.builds(_layers, st.integers(0, 10**6))),
    ]
    return [*found, *(("larger", _larger(number)) for number in range(200 - len(found)))]


def _named(
    name: str, count: int, strategy: st.SearchStrategy[Config], change: Callable[[Config, Random], Config] | None = None
) -> Iterator[Drawn]:
    """Yield so many problems of a strategy, any of those that it draws; `change` makes others of them."""
    found: list[Config] = []

    @seed(len(name) + count)
    @settings(
        max_examples=16 * count, phases=[Phase.generate], database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @drawing(strategy)
    def draw(config: Config) -> None:
        found.append(config)

    draw()
    random = Random(name)
    changed = [change(config, random) if change else config for config in random.sample(found, len(found))]
    rare = [config for config in changed if min(config["devices"], config["microbatches"]) > 1 or random.random() < 0.2]
    legal = [config for config in rare if _is_legal(config) and config["microbatches"] * config["stages"] > 1]
    assert len(legal) >= count, (name, len(legal), len(found))
    yield from ((name, config) for config in legal[:count])


def _is_legal(config: Config) -> bool:
    try:
        make_problem(**config)
    except PipeschedError:
        return False
    return True


def _alike(config: Config, random: Random) -> Config:
    """Return the config with microbatches that are alike: those of the first one."""
    del random
    changed = {key: value for key, value in config.items() if key != "sizes"}
    for key in TABLES:
        if isinstance(changed.get(key), list):
            changed[key] = [one[0] if isinstance(one, list) else one for one in changed[key]]
    return changed


def _alike_in_budget(config: Config, random: Random) -> Config:
    return _in_budget(_alike(config, random), random)


def _in_budget(config: Config, random: Random) -> Config:
    """Return the config with a budget for each device between that of 1F1B and that of GPipe, or a little less."""
    plans = []
    for name in ("1f1b", "naive"):
        try:
            plans.append(run(make_problem(**{**config, "placement": None}), name).schedule)
        except PipeschedError:
            return config
    scale, share = plans[0].problem.grains.per_unit, random.choice([Fraction(-1, 8), Fraction(0), Fraction(1, 3)])
    pairs = zip(plans[0].memory_grains, plans[1].memory_grains, strict=True)
    budget = [max(Fraction(low + round(share * (high - low)), scale), Fraction(1, 2)) for low, high in pairs]
    return {**config, "budget": budget}


def _layers(number: int) -> Config:
    """Return a model by layers with a given layout."""
    random = Random(number)
    p, chunks = random.randint(1, 4), random.randint(1, 2)
    layout = [random.randint(1, 3) for _ in range(p * chunks)]
    count = sum(layout)

    def amount() -> Any:
        values = [Fraction(random.randint(2, 40), random.choice([1, 2, 10])) for _ in range(count)]
        return values if random.random() < 0.4 else values[0]

    layer: Config = {"forward": amount(), "activation": amount(), "static": amount()}
    layer |= {key: amount() for key in random.choice([["backward"], ["backward_input", "backward_weight"], []])}
    if random.random() < 0.3:
        layer |= {key: amount() for key in ("reduce", "optimizer", "weights")}
    config: Config = {"devices": p, "stages": p * chunks, "microbatches": random.randint(1, 6), "layer": layer}
    config |= {"layers": count, "layout": layout, "p2p": random.choice([0, Fraction(1, 4), 2])}
    if random.random() < 0.6:
        config |= {"first": {"forward": random.randint(0, 3)}, "last": {"forward": 4, "static": Fraction(3, 2)}}
    if random.random() < 0.4:
        config["speed"] = [random.choice([1, 2, Fraction(4, 5)]) for _ in range(p)]
    return config


def _larger(number: int) -> Config:
    """Return a pipeline of up to 8 devices and 32 microbatches."""
    random = Random(number)
    p, chunks = random.choice([(4, 2), (6, 1), (8, 1), (8, 2)])
    config: Config = {"devices": p, "stages": p * chunks, "microbatches": random.choice([12, 16, 24, 32])}
    halves = random.choice([("backward_input", "backward_weight"), ("backward",)])
    for key in ("forward", *halves):
        config[key] = random.choice([random.randint(4, 9), [random.randint(4, 9) for _ in range(p * chunks)]])
    config |= {"p2p": random.choice([0, 1, Fraction(1, 2)])}
    if number % 3 == 0:
        config["sizes"] = {"work": [Fraction(random.randint(5, 15), 10) for _ in range(config["microbatches"])]}
    if number % 3 == 1:
        config |= {"reduce": 3, "optimizer": 2, "weights": 2, "shard": {"level": "gradients", "ranks": 4}}
    return config


def chosen_runs(name: str, config: Config, number: int) -> list[list[Any]]:
    """Return the runs of a problem: every family, and some with options. Slow runs are left out."""
    p, options = config["devices"], dict[str, list[Mapping[str, Any]]]()
    each = [*range(config["microbatches"])]
    options["naive"] = [{"lifo": True}, {"order": "verl"}, {"recompute": "full"}]
    options["1f1b"] = [{"recompute": "full"}, {"recompute": 1}, {"order": each[::-1]}, {"order": "best"}]
    options["interleaved"] = [{"group_size": p}, {"group_size": max(1, p - 1)}, {"group_size": 2 * p}]
    options["interleaved-zb"] = [{"group_size": p + 1}]
    options["zb-auto"] = [{"objective": "makespan"}]
    options["v-half"] = [{"objective": "makespan"}]
    options["list"] = [
        {"priority": "descendants", "tie": "fifo"}, {"priority": "alap", "tie": "random", "seed": number},
        {"priority": "mobility", "tie": "pairing"}, {"tie": "bfs"},
    ]  # fmt: skip
    options["block"] = [_block(config)]
    if "offload" in config:
        options |= {key: [{"offload": "full"}, {"offload": 1, "recompute": "full"}] for key in ("eager-1f1b", "zb-h1")}
    if "side" in config:
        options |= {key: [{"side_rule": "first"}] for key in ("1f1b-overlap", "zb-h2")}
    by_layers = "layers" in config
    grouped = ("interleaved", "interleaved-overlap", "grouped-interleaved", "interleaved-zb") if by_layers else ()
    default = {family: {"group_size": p} if family in grouped else {} for family in FAMILIES}
    runs = [[family, default[family]] for family in FAMILIES if name != "larger" or family != "block"]
    if name != "larger":
        runs += [[family, plain(rows[number % len(rows)])] for family, rows in options.items()]
    return [one for one in runs if _takes(config, one) < LONGEST * (3 if name == "larger" else 1)]


def _block(config: Config) -> Config:
    """Return the block of a chain of equal stages."""
    s, p = config["stages"], config["devices"]
    back = {"backward_input": [3 * s - 1 - stage for stage in range(s)]}
    return {"period": 9 * (s // p + 1), "forward": [*range(s)], **back}


def _takes(config: Config, one: list[Any]) -> float:
    began = perf_counter()
    answers_of(plain(config), [one])
    return perf_counter() - began


def drawn_entries() -> list[Config]:
    """Return the problems of a new corpus as JSON has them, without answers."""
    found = []
    for number, (name, config) in enumerate(drawn_problems()):
        assert given(plain(config)) == config
        runs = [{"run": one} for one in chosen_runs(name, config, number)]
        found.append({"name": name, "config": plain(config), "runs": runs})
    return found

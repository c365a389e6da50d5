"""How the problems of the corpus were drawn: once, by the generators of the oracle; the corpus itself holds them.

Another version of hypothesis draws others, so this runs only where somebody wants a new corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from random import Random
from time import perf_counter
from typing import Any

from hypothesis import HealthCheck, Phase, given as drawing, seed, settings, strategies as st

from pipesched.errors import PipeschedError
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.results.outcome import run
from pipesched.schedulers.registry import FAMILIES
from tests.corpus import answers_of, given, plain
from tests.oracle.drawn import PLACEMENTS, Config, configs, small_configs, step_configs

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

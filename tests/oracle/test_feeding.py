"""Orders of microbatches beside the second replay: what each makes of a plan, verl's rule, and the best of all."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from random import Random

import pytest
from hypothesis import given, strategies as st

from pipesched import NotApplicable, Outcome, make_problem, run
from tests.examples import part
from tests.oracle import orders
from tests.oracle.drawn import Config, configs
from tests.oracle.replay import Replayed, replay
from tests.oracle.setup import Setup, fused, read_setup
from tests.strategies import texts_of

STAYING = (  # families whose positions do not depend on costs, with the placements that a config may have for them
    *[(name, (None, "linear")) for name in ("sequential", "naive", "1f1b", "eager-1f1b", "zb-h1", "zb-h2")],
    *[(name, (None, "loop")) for name in ("interleaved", "looped-bfs", "grouped-interleaved", "interleaved-zb")],
    *[(name, ("v",)) for name in ("1f1b-v", "zb-v", "v-half", "dualpipe-v")],
    *[(name, (None, "bidirectional")) for name in ("dualpipe", "chimera")],
    ("bitpipe", ("two-v",)),
)


def setup_of(config: Config, outcome: Outcome) -> Setup:
    """The setup of the problem as it was run."""
    problem, placement = outcome.schedule.problem, outcome.schedule.problem.settled_placement
    return fused(read_setup(config), problem.stages, placement.devices, mirrored=placement.mirrored)


def differ(setup: Setup) -> bool:
    """Whether some microbatch is unlike another in a table or a factor."""
    tables = [*setup.times.values(), setup.p2p, setup.activation, [*setup.sizes.values()]]
    return any(len({*row}) > 1 for table in tables for row in table)


def works(setup: Setup) -> list[Fraction]:
    """The work of each microbatch: forwards and backwards of all stages."""
    rows = [row for kind in "FIW" for row in setup.times[kind]]
    wholes = [sum(column, Fraction(0)) for column in zip(*rows, strict=True)]
    return [whole * factor for whole, factor in zip(wholes, setup.sizes["work"], strict=True)]


def require_replay(outcome: Outcome, replayed: Replayed) -> None:
    """The makespan and the peaks of a schedule are those of a replay."""
    schedule = outcome.schedule
    assert Fraction(schedule.makespan_ticks, schedule.problem.ticks.per_unit) == replayed.makespan
    assert [Fraction(peak, schedule.problem.grains.per_unit) for peak in schedule.peak_grains] == replayed.peak


@pytest.mark.parametrize(("name", "placements"), STAYING)
def test_orders_of_a_family(name: str, placements: tuple[str | None, ...]) -> None:
    """A family runs any order in the positions of the given one with its numbers; verl and best are as defined."""

    @part(8)
    @given(configs(placements, most_microbatches=4), st.randoms(use_true_random=False), st.booleans())
    def judged(config: Config, random: Random, has_budget: bool) -> None:
        try:
            plain = run(make_problem(**config), name)
        except NotApplicable:
            return
        setup, rows = setup_of(config, plain), texts_of(plain.schedule.plan)
        every = [[*order] for order in permutations(range(setup.microbatches))]
        taken = [replay(setup, orders.renamed(rows, order)) for order in every]
        if has_budget:
            held = zip(random.choice(taken).peak, setup.statics(), strict=True)
            config = config | {"budget": [max(peak + static, Fraction(1, 100)) for peak, static in held]}
        problem = make_problem(**config)
        chosen = random.randrange(len(every))
        fed = run(problem, name, order=every[chosen])
        assert texts_of(fed.schedule.plan) == orders.renamed(rows, every[chosen])
        require_replay(fed, taken[chosen])
        by_verl = orders.verl(works(setup)) if differ(setup) else every[0]
        assert texts_of(run(problem, name, order="verl").schedule.plan) == orders.renamed(rows, by_verl)
        limits = config.get("budget", [None] * setup.devices)
        fits = [
            all(
                limit is None or peak + static <= limit
                for limit, peak, static in zip(limits, one.peak, setup.statics(), strict=True)
            )
            for one in taken
        ]
        best = min(range(len(every)), key=lambda one: (not fits[one], taken[one].makespan, every[one]))
        found = run(problem, name, order="best")
        require_replay(found, taken[best])
        assert texts_of(found.schedule.plan) == orders.renamed(rows, every[best])

    judged()

"""Many orders timed at once: each as a schedule of its own says."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from pipesched import NotApplicable, Problem, make_problem
from pipesched.comparing.compare import every_name
from pipesched.pipeline.plan.plan import Plan
from pipesched.schedulers.family import Family, prepare
from pipesched.schedulers.ordering import FedFamily, FedPlan
from pipesched.schedulers.registry import family
from pipesched.schedulers.saved_plan import saved_plan, savings
from tests.examples import at_night_but, part
from tests.oracle.drawn import PLACEMENTS, Config, configs, random_rows
from tests.oracle.setup import read_setup
from tests.pipeline.test_units import chances, placements_of, plan_of, randoms

FIXED = [name for name in every_name({}) if not family(name).looks_at_each]


def fed_family(config: Config, name: str, again: bool = False, away: bool = False) -> FedFamily:
    """The family on the problem, with the recompute or the offload of all of its stages."""
    known = family(name)

    def make(problem: Problem) -> Plan:
        plan = known.plan(problem)
        if not again and not away:
            return plan
        return saved_plan(problem, plan, savings(problem, known, *(("full", None) if again else (None, "full"))))

    try:
        return FedFamily(prepare(make_problem(**config), known), known, make)
    except NotApplicable:
        assume(False)
        raise


def judge(fed: FedFamily, random: Random) -> None:
    """Some orders, together and in any number, take what their schedules take, and hold what these hold."""
    count = fed.problem.microbatches
    listed = [random.sample(range(count), count) for _ in range(3)]
    timer = FedPlan(fed.problem, fed.positions)
    makespans, peaks = timer.makespans(np.array(listed)), timer.peaks(np.array(listed))
    for entry, order in enumerate(listed):
        schedule = fed.schedule(order)
        assert makespans[entry] == schedule.makespan_ticks <= timer.longest
        assert [*peaks[:, entry]] == schedule.peak_grains


@pytest.mark.parametrize("name", at_night_but(FIXED[::2], FIXED))
@pytest.mark.slow
def test_families(name: str) -> None:
    """Every family whose positions stay, with sizes, tables, speeds and links, on both ways of a mirrored placement."""

    @part(4)
    @given(configs(placements_of(name)), randoms)
    def judged(config: Config, random: Random) -> None:
        judge(fed_family(config, name), random)

    judged()


@given(
    st.tuples(st.booleans(), st.booleans()).flatmap(
        lambda kinds: configs(PLACEMENTS, slices=kinds[0], forward_only=kinds[1])
    ),
    randoms,
    chances,
    chances,
)
def test_random_plans(config: Config, random: Random, split: float, pair: float) -> None:
    """The same of any plan: of slices, of forward passes alone, with backwards that are split here and there."""
    forward_only, sliced = "mode" in config, "slices" in config
    rows = random_rows(read_setup(config), random, split=split * (not forward_only), pair=pair * (not sliced))
    plan = plan_of(config, rows)
    judge(FedFamily(make_problem(**config), family("1f1b"), lambda _: plan), random)


SAVING = ["1f1b", "chimera", "interleaved", "zb-h1", "dualpipe", "1f1b-overlap"]


@pytest.mark.parametrize("name", at_night_but(SAVING[::2], SAVING))
@pytest.mark.parametrize("again", [True, False], ids=["recompute", "offload"])
@pytest.mark.slow
def test_recompute_and_offload(name: str, again: bool) -> None:
    """The same with operations between forwards and backwards, whose memory is there while transfers run."""

    @part(4)
    @given(configs(placements_of(name)), randoms, st.sampled_from(["device", "pair"]))
    def judged(config: Config, random: Random, lanes: str) -> None:
        config = config | {"checkpoint": Fraction(1, 4), "offload": 2, "reload": 3, "lanes": lanes}
        judge(fed_family(config, name, again, not again), random)

    judged()


@pytest.mark.parametrize("values", [{}, {"p2p": 1}, {"overlap": 2}])
def test_pairs_of_a_known_length(values: dict[str, Any]) -> None:
    """Where the problem says what a pair lasts, it lasts that whatever is fed to it."""
    sizes = {"activation": [1, 2, 3, 4]}
    judge(fed_family({"devices": 2, "sizes": sizes, **values}, "1f1b-overlap"), Random(0))


def test_numbers_above_64_bits() -> None:
    """Sums that 64 bits do not hold are as exact as others."""
    work = [Fraction(1, prime) for prime in (999999937, 999999929)] + [10**9]
    fed = fed_family({"devices": 2, "sizes": {"work": work, "activation": work}}, "1f1b")
    assert fed.schedule(None).makespan_ticks > 2**63
    judge(fed, Random(0))


def test_more_orders_than_are_timed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches change nothing."""
    fed = fed_family({"devices": 2, "sizes": {"work": [1, 2, 3, 4, 5]}}, "1f1b")
    orders = np.array([Random(seed).sample(range(5), 5) for seed in range(50)])
    whole = FedPlan(fed.problem, fed.positions).makespans(orders)
    monkeypatch.setattr("pipesched.schedulers.ordering.MOST_CELLS", 70)
    assert [*FedPlan(fed.problem, fed.positions).makespans(orders)] == [*whole]


def test_only_some_families_look_at_each_microbatch() -> None:
    """Those that plan each order anew say so; of all others one plan serves for every order."""
    anew: list[Family] = [known for name in every_name({"block": {}}) if (known := family(name)).looks_at_each]
    assert [known.name for known in anew] == ["zb-auto", "hanayo", "list", "block"]

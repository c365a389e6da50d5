"""PyTorch's own runtime runs what we write: same loss, same gradients, and the operations in the order of the file.

Needs torch, and is skipped without it; with PIPESCHED_REQUIRE_TORCH=1 in the environment a missing torch is a failure.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

import pipesched
from pipesched import ConfigError, InvalidSchedule, NotApplicable, Schedule
from pipesched.file_formats.pytorch_csv import dump, parse
from pipesched.schedulers.registry import FAMILIES
from tests.examples import at_night_but
from tests.file_formats.pytorch_files import disturb, with_transfers, with_waits
from tests.runtime_ranks import TOO_LATE, Failed, Pool, pool_of
from tests.solved import solved
from tests.strategies import plan_of, random_plan
from tests.torch_ranks import HAS_WAITS, Dump, Job, Ran, needs_torch, run_job

TOLERANCE = 1e-9  # the model is in float64
pytestmark = needs_torch


ranks = pool_of(4)


def run_text(ranks: Pool, folder: Path, text: str, form: str = "compute_only") -> list[Ran]:
    """Run the text of a file."""
    path = folder / "schedule.csv"
    path.write_text(text)
    plan, placement = parse(text, path.name)
    return run_job(ranks, Job(path, placement.devices, plan.index.microbatches, form))


def as_loaded(text: str) -> str:
    """A file with communication, with its waits if this version of PyTorch takes it with them only."""
    rows = [row.split(",") for row in text.splitlines()]
    return "".join(",".join(row) + "\n" for row in (with_waits(rows) if HAS_WAITS else rows))


def computations(row: str) -> list[str]:
    """The computations in a row of a file, pairs taken apart, in order."""
    return re.findall(r"(?<![0-9])[0-9]+[FBIW][0-9]+(?![0-9])", row)


def assert_trains(ran: list[Ran], text: str) -> None:
    """The ranks did what the file says, and it was the training step of the whole model."""
    assert [one.executed for one in ran] == [computations(row) for row in text.splitlines()]
    assert max(one.gradient_error for one in ran) < TOLERANCE
    assert max(one.loss_error for one in ran) < TOLERANCE


def block_of(stages: int, *halves: str) -> dict[str, Any]:
    """A user's building block: forwards down the stages, and backwards (or these halves of them) back up."""
    up = [4 * stages - 2 * stage for stage in range(stages)]
    return {"period": 7, "forward": list(range(stages)), **dict.fromkeys(halves or ["backward"], up)}


def made(algorithm: str, devices: int, chunks: int, **options: Any) -> Schedule:
    """A schedule of a family; M = 2P + 1 microbatches where the family takes them, else 2P."""
    for microbatches in (2 * devices + 1, 2 * devices):
        problem = pipesched.make_problem(
            devices=devices, stages=chunks * devices, microbatches=microbatches, forward=2, backward=3, p2p=1
        )
        try:
            return pipesched.run(problem, algorithm, **options).schedule
        except NotApplicable:
            continue
    pytest.fail(f"{algorithm} does not run on {devices} devices with {chunks} stages each")


@pytest.mark.parametrize("devices", at_night_but([2], [2, 4]))
@pytest.mark.parametrize("algorithm", FAMILIES)
def test_every_family(ranks: Pool, tmp_path: Path, algorithm: str, devices: int) -> None:
    """Each family with two stages a device where it can have them; a bidirectional one says that it cannot be run."""
    options = block_of(2 * devices) if algorithm == "block" else {}
    schedule = made(algorithm, devices, chunks=2, **options)
    if schedule.problem.settled_placement.mirrored:
        with pytest.raises(NotApplicable, match=r"one rank.*dualpipe-v"):
            dump(schedule)
        return
    text = dump(schedule)
    assert_trains(run_text(ranks, tmp_path, text), text)


OTHERS = [
    ("naive", 3, 1, {"lifo": True}),
    ("interleaved", 2, 3, {}),
    ("interleaved", 2, 2, {"group_size": 5}),
    ("interleaved-zb", 3, 2, {}),
    ("hanayo", 2, 4, {}),
    ("list", 3, 3, {"tie": "random", "seed": 5}),
    ("block", 2, 2, block_of(4, "backward_input")),
    ("block", 3, 1, {**block_of(3), "squeeze": False}),
]


@pytest.mark.parametrize(("algorithm", "devices", "chunks", "options"), OTHERS)
def test_options_of_families(
    ranks: Pool, tmp_path: Path, algorithm: str, devices: int, chunks: int, options: dict[str, Any]
) -> None:
    """Backwards in reverse, more chunks a device, an odd group, three ranks, a random tie, blocks split and loose."""
    text = dump(made(algorithm, devices, chunks, **options))
    assert_trains(run_text(ranks, tmp_path, text), text)


@pytest.mark.parametrize("seed", at_night_but(range(0, 20, 4), range(20)))
def test_random_legal_plans(ranks: Pool, tmp_path: Path, seed: int) -> None:
    """Any order that keeps the rules runs: stages anywhere, B and I with W mixed, pairs, microbatches in any order."""
    random = Random(seed)
    devices, extra = random.choice([2, 3, 4]), random.randint(0, 4)
    devices_of_stages = [*range(devices), *random.choices(range(devices), k=extra)]
    random.shuffle(devices_of_stages)
    problem = pipesched.make_problem(
        devices=devices, stages=len(devices_of_stages), microbatches=random.randint(1, 6), placement=devices_of_stages
    )
    texts = random_plan(problem, random, split=random.choice([0, 0.5, 1]), pair=random.choice([0, 0.5]))
    text = dump(pipesched.schedule_plan(problem, plan_of(problem, texts)))
    assert_trains(run_text(ranks, tmp_path, text), text)


@pytest.mark.parametrize("method", at_night_but(["cpsat"], ["list", "portfolio", "cpsat", "improve"]))
@pytest.mark.parametrize("placement", at_night_but(["v"], ["linear", "loop", "v"]))
@pytest.mark.parametrize("split", [False, True])
def test_schedules_under_a_budget(ranks: Pool, tmp_path: Path, method: str, placement: str, split: bool) -> None:
    """What is found under a memory budget, by a rule or by the solver, trains the same model."""
    costs: dict[str, Any] = {"backward_input": 4, "backward_weight": 3} if split else {"backward": 7}
    problem = pipesched.make_problem(
        devices=4, stages=4 if placement == "linear" else 8, microbatches=6, placement=placement, forward=3, p2p=1,
        activation=1, budget=5, **costs,
    )  # fmt: skip
    if method == "list":
        schedule = pipesched.run(problem, method).schedule
    else:
        name = f"budget-5-{method}-{placement}" + "-split" * split
        schedule = solved(name, problem, method=method, time_limit=3).schedule
    assert schedule.fits
    text = dump(schedule)
    assert_trains(run_text(ranks, tmp_path, text), text)


@pytest.mark.parametrize("algorithm", ["1f1b", "interleaved-zb", "dualpipe-v"])
def test_what_pytorch_adds_to_our_files(ranks: Pool, tmp_path: Path, algorithm: str) -> None:
    """PyTorch's compute_comms version of a file keeps our rules, means the same, and runs as well."""
    text, lowered = dump(made(algorithm, devices=4, chunks=2)), tmp_path / "lowered.csv"
    plan, placement = parse(text, "ours")
    path = tmp_path / "ours.csv"
    path.write_text(text)
    run_job(ranks, Job(path, placement.devices, plan.index.microbatches, lowered=lowered))
    again, where = parse(lowered.read_text(), "theirs")
    assert (again.orders, again.pairs, where) == (plan.orders, plan.pairs, placement)
    assert_trains(run_text(ranks, tmp_path, lowered.read_text(), "compute_comms"), lowered.read_text())


@pytest.mark.parametrize("seed", at_night_but(range(0, 10, 4), range(10)))
def test_what_passes_the_check_runs(ranks: Pool, tmp_path: Path, seed: int) -> None:
    """Files with communication, changed at random until one passes the check: PyTorch trains by it as it should."""
    random = Random(seed)
    problem = pipesched.make_problem(devices=3, stages=4, microbatches=3, placement=random.sample([0, 1, 2, 1], 4))
    plan = plan_of(problem, random_plan(problem, random, split=0.5))
    rows = [row.split(",") for row in dump(pipesched.schedule_plan(problem, plan)).split()]
    for _ in range(1000):
        table = with_transfers(problem, rows)
        table = with_waits(table) if HAS_WAITS else table
        for _ in range(3):
            disturb(table, random)
        for stage, placement in enumerate(problem.settled_placement.devices):
            table[placement] += [f"{stage}REDUCE_GRAD", f"{stage}WAIT_REDUCE_GRAD"][: 1 + HAS_WAITS]
        text = "\n".join(map(",".join, table))
        if not has_mistakes(text):
            break
    assert_trains(run_text(ranks, tmp_path, text, "compute_comms"), text)


def has_mistakes(text: str) -> bool:
    """Whether the check refuses a file."""
    try:
        parse(text, "x.csv")
    except (InvalidSchedule, ConfigError):
        return True
    return False


LOOP, V, LINE = (0, 1, 2, 3) * 2, (0, 1, 2, 3, 3, 2, 1, 0), (0, 1, 2, 3)
BUILT_IN = [
    ("ScheduleGPipe", "naive", LINE, 8),
    ("ScheduleInterleaved1F1B", "interleaved", LOOP, 8),
    ("ScheduleInterleaved1F1B", "interleaved", LOOP, 10),
    ("ScheduleLoopedBFS", "looped-bfs", LOOP, 6),
    ("ScheduleInterleavedZeroBubble", "interleaved-zb", LOOP, 12),
    ("ScheduleDualPipeV", "dualpipe-v", V, 8),
    ("ScheduleDualPipeV", "dualpipe-v", V, 11),
]


@pytest.mark.parametrize(("name", "algorithm", "devices_of_stages", "microbatches"), BUILT_IN)
def test_built_in_schedules(
    ranks: Pool, tmp_path: Path, name: str, algorithm: str, devices_of_stages: tuple[int, ...], microbatches: int
) -> None:
    """PyTorch's classes and our families have the same order, operation by operation."""
    path = tmp_path / "theirs.csv"
    run_job(ranks, Dump(path, name, devices_of_stages, microbatches))
    rounds = max(1, microbatches // 4)
    options: dict[str, Any] = {"group_size": microbatches // rounds} if algorithm.startswith("interleaved") else {}
    problem = pipesched.make_problem(devices=4, stages=len(devices_of_stages), microbatches=microbatches)
    ours = dump(pipesched.run(problem, algorithm, **options).schedule)
    theirs = path.read_text()
    assert [computations(row) for row in theirs.splitlines()] == [computations(row) for row in ours.splitlines()]
    assert parse(theirs, path.name)[1].devices == devices_of_stages


@pytest.mark.parametrize("name", ["ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble", "ScheduleDualPipeV"])
def test_built_in_schedules_with_communication(ranks: Pool, tmp_path: Path, name: str) -> None:
    """The files of PyTorch's classes, communication and sharding included, keep the rules."""
    path, devices_of_stages = tmp_path / "theirs.csv", LOOP if "Interleaved" in name else V
    run_job(ranks, Dump(path, name, devices_of_stages, 8, "compute_comms"))
    assert "SEND_B" in path.read_text()
    assert parse(path.read_text(), path.name)[1].devices == devices_of_stages


@pytest.mark.parametrize(("name", "algorithm"), [("ScheduleGPipe", "naive"), ("Schedule1F1B", "1f1b")])
def test_what_built_in_schedules_execute(ranks: Pool, name: str, algorithm: str) -> None:
    """The classes of one stage a rank, which run code instead of a list, do what our files say."""
    text = dump(pipesched.run(pipesched.make_problem(devices=4, microbatches=7), algorithm).schedule)
    assert_trains(run_job(ranks, Job(name, LINE, 7)), text)


def test_built_in_1f1b_is_off_by_one(ranks: Pool, tmp_path: Path) -> None:
    """What Schedule1F1B writes for its last rank starts at microbatch 1; it runs something else. The check says so."""
    path = tmp_path / "theirs.csv"
    run_job(ranks, Dump(path, "Schedule1F1B", LINE, 8))
    with pytest.raises(InvalidSchedule) as caught:
        parse(path.read_text(), path.name)
    assert any("3F0 is missing" in violation for violation in caught.value.violations)


def test_deferred_receives_mix_up_microbatches(ranks: Pool, tmp_path: Path) -> None:
    """With defer_pp_recv=True dualpipe-v trains wrongly, without a word; the file that it makes fails our check."""
    path, lowered = tmp_path / "ours.csv", tmp_path / "lowered.csv"
    path.write_text(dump(made("dualpipe-v", devices=4, chunks=2)))
    plan, placement = parse(path.read_text(), path.name)
    ran = run_job(ranks, Job(path, placement.devices, plan.index.microbatches, defer_recv=True, lowered=lowered))
    assert max(one.gradient_error for one in ran) > 1e-3
    with pytest.raises(InvalidSchedule, match="deadlock"):
        parse(lowered.read_text(), "lowered")


def test_split_backward_behind_frozen_stages(ranks: Pool, tmp_path: Path) -> None:
    """Where the input of a stage needs no gradient, PyTorch's I and W lose the gradients of its weights; B does not."""
    path, errors = tmp_path / "ours.csv", {}
    for algorithm in ("1f1b", "zb-h1"):
        path.write_text(dump(made(algorithm, devices=3, chunks=1)))
        errors[algorithm] = [one.gradient_error for one in run_job(ranks, Job(path, (0, 1, 2), 7, frozen=1))]
    assert max(errors["1f1b"]) < TOLERANCE
    assert errors["zb-h1"][1] == float("inf")
    assert max(errors["zb-h1"][0], errors["zb-h1"][2]) < TOLERANCE


def mistaken(text: str) -> list[str]:
    """What the check says of a file."""
    with pytest.raises(InvalidSchedule) as caught:
        parse(text, "mistaken.csv")
    return list(caught.value.violations)


def test_last_stage_out_of_order(ranks: Pool, tmp_path: Path) -> None:
    """PyTorch loads a last stage out of order, and its gradients are wrong: the check names the cell."""
    text = "0F1,0F0,0I1,0W1,0I0,0W0\n1F1,1F0,1I1,1W1,1I0,1W0\n"
    assert mistaken(text) == [
        "row 2, column 1: 1F1, but forward 0 of the last stage must be 1F0: PyTorch takes its losses for those of"
        " microbatches 0, 1, 2, ...; number the microbatches in this order"
    ]
    (tmp_path / "mistaken.csv").write_text(text)
    try:
        ran = run_job(ranks, Job(tmp_path / "mistaken.csv", (0, 1), 2))
    except Failed:
        return
    assert max(one.gradient_error for one in ran) > 1e-3


def test_gradients_without_reduce_grad(ranks: Pool, tmp_path: Path) -> None:
    """With communication in the file, PyTorch scales gradients only at REDUCE_GRAD; the check notes a missing one."""
    first = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1"
    last = "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1"
    with_them = as_loaded(f"{first},0REDUCE_GRAD\n{last},1REDUCE_GRAD\n")
    without = as_loaded(f"{first}\n{last}\n")
    assert_trains(run_text(ranks, tmp_path, with_them, "compute_comms"), with_them)
    assert min(one.gradient_error for one in run_text(ranks, tmp_path, without, "compute_comms")) > 1e-3
    assert parse(with_them, "x.csv")[0].note == ""
    assert "no REDUCE_GRAD" in parse(without, "x.csv")[0].note


def test_missing_send_hangs(ranks: Pool, tmp_path: Path) -> None:
    """A missing SEND stops nobody from loading the file, and then the ranks wait for ever: the check says where."""
    text = as_loaded("0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n")
    assert mistaken(text) == ["row 1: 0SEND_F0 is missing, for which 1RECV_F0 (row 2, column 1) waits forever"]
    (tmp_path / "mistaken.csv").write_text(text)
    with pytest.raises(Failed, match=TOO_LATE):
        run_job(ranks, Job(tmp_path / "mistaken.csv", (0, 1), 1, "compute_comms"), seconds=3)

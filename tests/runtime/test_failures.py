"""What goes wrong ends the step of every rank, with an error that names the operation and the rank, and soon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import pipesched
from pipesched.documents.schedule import document
from tests.runtime_ranks import DEVICE, Pool
from tests.solved import solved
from tests.torch_ranks import needs_torch

pytestmark = needs_torch
DEVICES, MICROBATCHES = 4, 6


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Four processes."""
    ranks = Pool(DEVICES, tmp_path_factory.mktemp("ranks"))
    yield ranks
    ranks.stop()


def problem(**more: Any) -> pipesched.Problem:
    return pipesched.make_problem(
        devices=DEVICES, stages=DEVICES, microbatches=MICROBATCHES, forward=1, backward=2, **more
    )


def raised(pool: Pool, source: Any, what: str) -> list[Any]:
    """What each rank raised."""
    from tests.runtime.failures import attempt

    found = pool.run(DEVICES, attempt, source, DEVICES, MICROBATCHES, what)
    assert all(one is None or one.threads <= 0 for one in found)
    return found


STEPS = {
    "raises": ("Planned", "as planned", "1F2"),
    "raises in a backward": ("Planned", "as planned", "1B0"),
    "does not fit": ("RuntimeError", "shapes cannot be multiplied", "1F0"),
    "changes its output": (
        "RuntimeError",
        "its output is [15, 32] float64; a step before it was [16, 32] float64, and must stay so with inputs of these",
        "send 1F0",
    ),
}


@pytest.mark.parametrize("what", STEPS)
def test_a_rank_that_raises(pool: Pool, what: str) -> None:
    """Its own exception there, and on all others an error that quotes it; a second attempt trains."""
    kind, message, op = STEPS[what]
    schedule = pipesched.run(problem(), "1f1b").schedule
    found = raised(pool, schedule, what)
    assert found[1].kind == kind
    for rank, one in enumerate(found):
        assert message in one.text
        assert op in one.text
        assert "rank 1" in one.text
        assert rank == 1 or one.kind == "RankFailed"
    assert [one.kind for one in raised(pool, schedule, "nothing")] == ["nothing"] * DEVICES


def test_a_rank_that_is_killed(pool: Pool) -> None:
    """The others say where they lost it; none of them stays."""
    found = raised(pool, pipesched.run(problem(), "1f1b").schedule, "is killed")
    assert found[1] is None
    for one in (found[0], found[2], found[3]):
        assert one.kind == "RankFailed"
        assert "a rank is gone" in one.text
        assert any(f"on rank {rank} lost its connection to rank 1" in one.text for rank in (0, 2))
        assert DEVICE == "cuda" or any(op in one.text for op in ("0B", "2F"))  # the host of a GPU is ahead of it


@pytest.mark.parametrize("how", ["by closing", "by its end"])
def test_ranks_notice_one_after_the_other_that_one_is_gone(pool: Pool, how: str) -> None:
    """Whatever they wait for: each is told when the next one ends its connections, and then ends its own."""
    from tests.runtime.models import notices

    noticed = (True, True)
    assert pool.run(DEVICES, notices, how) == [noticed, None if how == "by its end" else noticed, noticed, noticed]


def test_batch_norm(pool: Pool) -> None:
    """A batch normalization is refused on every rank, before a step, with the reason."""
    found = raised(pool, pipesched.run(problem(), "1f1b").schedule, "BatchNorm")
    assert [one.kind for one in found] == ["RankFailed", "ConfigError", "RankFailed", "RankFailed"]
    for one in found:
        assert "1F0 on rank 1" in one.text
        assert "BatchNorm1d, which normalizes over a microbatch" in one.text


def test_wrong_inputs(pool: Pool) -> None:
    """A list of inputs of another length is an error of its rank, of which all others hear."""
    found = raised(pool, pipesched.run(problem(), "1f1b").schedule, "a microbatch less")
    assert [one.kind for one in found] == ["ConfigError", "RankFailed", "RankFailed", "RankFailed"]
    assert all("inputs: must hold one entry for each of the 6 microbatches" in one.text for one in found)


def test_a_rank_without_the_schedule(pool: Pool) -> None:
    """A file that one rank cannot read is an error of all, of which the others hear at once; they train afterwards."""
    schedule = pipesched.run(problem(), "1f1b").schedule
    found = raised(pool, schedule, "reads another file")
    assert [one.kind for one in found] == ["RankFailed", "ConfigError", "RankFailed", "RankFailed"]
    assert all("cannot read 'no such file'" in one.text for one in found)
    assert all("rank 1 cannot run the schedule" in found[rank].text for rank in (0, 2, 3))
    assert [one.kind for one in raised(pool, schedule, "nothing")] == ["nothing"] * DEVICES


def offloaded() -> dict[str, Any]:
    """The document of a plan with loads."""
    limited = problem(placement="linear", activation=1, offload=1, budget=2)
    outcome = solved("failures-offload", limited, offload=True, time_limit=3)
    content: dict[str, Any] = json.loads(json.dumps(document(outcome)))
    return content


def without_a_load(content: dict[str, Any]) -> str:
    """Leave a load out, with all that waits for it and for which it waits."""
    row = next(row for row in content["transfers"] if row)
    load = next(entry for entry in row if "L" in entry["op"])
    row.remove(load)
    content["waits"] = [pair for pair in content.get("waits", []) if load["op"] not in pair]
    return str(load["op"])


def with_a_load_twice(content: dict[str, Any]) -> str:
    """Load an activation again."""
    row = next(row for row in content["transfers"] if row)
    load = next(entry for entry in row if "L" in entry["op"])
    row.append(load)
    return str(load["op"])


def in_an_order_that_deadlocks(content: dict[str, Any]) -> str:
    """Let the first device run a backward before the forward that it needs."""
    row = content["devices"][0]
    row[0]["op"], row[-1]["op"] = row[-1]["op"], row[0]["op"]
    return str(row[0]["op"])


def without_a_backward(content: dict[str, Any]) -> str:
    """Leave the last backward out."""
    return str(content["devices"][0].pop()["op"])


@pytest.mark.parametrize("spoil", [without_a_load, with_a_load_twice, in_an_order_that_deadlocks, without_a_backward])
def test_wrong_plans(pool: Pool, spoil: Any) -> None:
    """A plan that breaks rules is refused on every rank, by the name of an operation, before anything is sent."""
    content = offloaded()
    op = spoil(content)
    for one in raised(pool, content, "nothing"):
        assert one.kind == "InvalidSchedule"
        assert op in one.text


def test_a_deadlock_of_operations_without_length(pool: Pool) -> None:
    """Times do not betray a circle of operations that take no time; the order does, on every rank."""
    free = pipesched.make_problem(devices=4, stages=4, microbatches=6, forward=0, backward=0)
    content = json.loads(json.dumps(document(pipesched.run(free, "1f1b"))))
    row = content["devices"][0]
    row.insert(0, row.pop())
    for one in raised(pool, content, "nothing"):
        assert one.kind == "Deadlock"
        assert row[0]["op"] in one.text

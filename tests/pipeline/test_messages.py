"""Messages in queues: published programs, the best order, deadlocks, bad input, documents and what refuses them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pipesched import (
    ConfigError,
    Deadlock,
    InvalidSchedule,
    Outcome,
    Problem,
    Schedule,
    check,
    compare,
    explain,
    make_problem,
    plan,
    robustness,
    run,
    schedule_plan,
    solve,
)
from pipesched.core.reasons import Idle
from pipesched.documents import json_text, schedule as documents
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.plan.message_programs import BestOrder
from pipesched.pipeline.plan.plan import MessageProgram
from pipesched.pipeline.plan.schedule import requeued
from pipesched.pipeline.plan.step import Messages
from tests.oracle.test_messages import ends_of
from tests.strategies import texts_of

QUEUES = ("free", "edge", "pair", "rank", "device")
# P, M, algorithm and p2p, and what an event simulation of PyTorch 2.13's own programs takes in each queue
PYTORCH = [
    (2, 4, "interleaved", 0, (27, 27, 27, 27, 40)),
    (2, 4, "interleaved", 0.25, (28.5, 28.5, 29, 29, 46)),
    (2, 4, "interleaved", 1, (33, 33, 37, 37, 64)),
    (3, 6, "interleaved", 0, (42, 42, 42, 48, 67)),
    (3, 6, "interleaved", 0.25, (44.5, 44.5, 44.5, 54.5, 80)),
    (3, 6, "interleaved", 1, (52, 52, 52, 86, 119)),
    (4, 8, "looped-bfs", 0, (57, 57, 57, 77, 91)),
    (4, 8, "looped-bfs", 0.25, (58.5, 58.5, 58.5, 98, 111)),
    (4, 8, "looped-bfs", 1, (63, 63, 63, 161, 171)),
]
CUT = {"count": 2, "tokens": [0.25, 0.75]}


def problem_of(devices: int, microbatches: int, p2p: float, messages: Any) -> Problem:
    """Two stages a device, forward 1, backward 2."""
    costs: Any = {"forward": 1, "backward": 2, "p2p": p2p}
    return make_problem(devices=devices, stages=2 * devices, microbatches=microbatches, **costs, messages=messages)


@pytest.mark.parametrize(("devices", "microbatches", "algorithm", "p2p", "makespans"), PYTORCH)
def test_programs_of_pytorch(
    devices: int, microbatches: int, algorithm: str, p2p: float, makespans: tuple[float, ...]
) -> None:
    """Programs as PyTorch lowers them take in each queue what an event simulation found."""
    problems = (problem_of(devices, microbatches, p2p, queue) for queue in QUEUES)
    assert tuple(run(problem, algorithm).schedule.makespan for problem in problems) == makespans


@pytest.mark.parametrize(
    ("devices", "microbatches", "algorithm", "makespan"),
    [(3, 6, "interleaved", 44.5), (4, 8, "looped-bfs", 58.5), (8, 64, "interleaved", 412.5)],
)
def test_best_order(devices: int, microbatches: int, algorithm: str, makespan: float) -> None:
    """The best order of one queue a rank takes what queues of single edges do, which is its bound."""
    best = run(problem_of(devices, microbatches, 0.25, {"queue": "rank", "order": "best"}), algorithm)
    assert best.schedule.makespan == makespan
    assert BestOrder(best.problem, best.schedule.plan).bound == best.schedule.makespan_ticks
    assert check(best) == []


def test_messages_that_a_plan_has_otherwise() -> None:
    """Ends that are missing, twice, elsewhere or behind other slots are told, and messages at other times."""
    schedule = run(make_problem(devices=2, microbatches=2, p2p=3, messages="device"), "1f1b").schedule
    (first, second), row = schedule.plan.messages, schedule.plan.index.row
    sent, forward = schedule.plan.index.first_message, row("F", 0)[1]

    def ends(*kept: int) -> MessageProgram:
        return MessageProgram(*(values[[*kept]] for values in first))

    def moved(number: int, start: int, end: int) -> Schedule:
        starts, until = [*schedule.start_ticks], [*schedule.end_ticks]
        starts[number], until[number] = starts[number] + start, until[number] + end
        return replace(schedule, start_ticks=starts, end_ticks=until)

    programs = {
        "the plan has messages of 1 devices; the problem has 2": [first],
        "0SEND_F0 is missing on device 0": [ends(1, 2, 3), second],
        "0SEND_F0 stands 2 times on device 0": [ends(0, 0, 1, 2, 3), second],
        "1RECV_F0 on device 0 is none of the plan's": [second, first],
        "0SEND_F0 on device 0 stands behind no slot of it, or goes back behind": [ends(1, 0, 2, 3), second],
        "0SEND_F1 on device 0 stands behind no slot of it": [first._replace(after=second.after), second],
    }
    wrong = {said: replace(schedule, plan=replace(schedule.plan, messages=one)) for said, one in programs.items()}
    wrong |= {
        "0SEND_F0 starts before time 0": moved(sent, -99, -99),
        "0SEND_F0 lasts 2, not 3": moved(sent, 1, 0),
        "0SEND_F1 starts at 6, not at 5, when it is made": moved(sent + 1, 1, 1),
        "0F1 starts before 0SEND_F0 has ended on the same device": moved(forward, -1, -1),
        "the plan has queues of messages; those": replace(schedule, problem=replace(schedule.problem, messages=None)),
    }
    for said, one in wrong.items():
        assert any(sentence.startswith(said) for sentence in violations(one))


def swapped(queue: str) -> tuple[Problem, list[str], list[list[tuple[str, str | None]]]]:
    """A plan of two devices whose first one sends 0F1 before it receives 1F0 and sends 0F0."""
    problem = make_problem(devices=2, stages=4, microbatches=2, forward=1, backward=2, placement="loop", messages=queue)
    schedule = run(problem, "interleaved").schedule
    ends = [[*row] for row in ends_of(schedule)]
    (first, after), (other, behind) = ends[0][0], ends[0][3]
    ends[0][0], ends[0][3] = (other, after), (first, behind)
    return problem, [" ".join(row) for row in texts_of(schedule.plan)], ends


@pytest.mark.parametrize("queue", ["pair", "rank", "device"])
def test_a_circle_of_queues_is_told(queue: str) -> None:
    """What waits for each other is a deadlock, as a chain, also if nothing takes time; queues of edges know no RECV."""
    problem, orders, ends = swapped(queue)
    with pytest.raises(Deadlock, match="1F0 on device 1 waits for 0SEND_F0, which comes after 0SEND_F1"):
        schedule_plan(problem, plan(problem, orders, messages=ends))
    timeless = make_problem(devices=2, microbatches=2, forward=0, backward=0, messages=queue)
    with pytest.raises(Deadlock, match="1B0 on device 1 waits for 1F0, which comes after 1B0"):
        schedule_plan(timeless, plan(timeless, ["0F0 0F1 0B0 0B1", "1B0 1F0 1F1 1B1"]))
    free, orders, ends = swapped("edge")
    assert check(schedule_plan(free, plan(free, orders, messages=ends))) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: row[1:], "0SEND_F0 is missing on device 0"),
        (lambda row: [row[0], *row], "0SEND_F0 on device 0 is not sent or received there, or stands twice"),
        (lambda row: [("0RECV_F0", None), *row], "0RECV_F0 on device 0 is not sent"),
        (lambda row: [(row[0][0], "1F0"), *row[1:]], "0SEND_F0 on device 0 stands after what is no slot there"),
        (lambda row: [("0F0", None), *row], "0F0 does not belong here: a queue moves SEND_F"),
    ],
)
def test_wrong_programs(change: Any, said: str) -> None:
    """Programs that lack an end of a message, or have one twice or elsewhere, are refused with what and where."""
    problem = make_problem(devices=2, microbatches=2, messages="rank")
    schedule = run(problem, "1f1b").schedule
    ends = [[*row] for row in ends_of(schedule)]
    ends[0] = change(ends[0])
    with pytest.raises((ConfigError, InvalidSchedule), match=said):
        plan(schedule.problem, [" ".join(row) for row in texts_of(schedule.plan)], messages=ends)


def test_numbers_of_other_messages() -> None:
    """A plan that numbers no messages is told so where they queue, as is one of them in a place of operations."""
    problem = make_problem(devices=2, microbatches=4, p2p=3, messages="device")
    queued, free = run(problem, "1f1b").schedule, run(make_problem(devices=2, microbatches=4, p2p=3), "1f1b").schedule
    nothing: Any = [MessageProgram(*[np.zeros(0, int)] * 4)] * 2
    silent = replace(free.plan, messages=nothing)
    said = "the plan has other messages than those between the devices of the problem"
    assert check(Schedule(queued.problem, silent, free.start_ticks, free.end_ticks)) == [said]
    with pytest.raises(ConfigError, match=said):
        schedule_plan(queued.problem, silent)
    good, first = queued.plan, queued.plan.index.first_message
    with pytest.raises(InvalidSchedule, match="0F0 stands twice in the plan"):
        schedule_plan(queued.problem, replace(free.plan, orders=[[0, *free.plan.orders[0]], free.plan.orders[1]]))
    number, sends, after, behind = good.messages[0]
    wrong = [(number + 1, sends, after, behind), (number, sends + 1, after, behind), (number, sends, after, behind[1:])]
    places: list[dict[str, Any]] = [{"orders": [[first], []]}, {"waits": [(first, 0)]}, {"network": [[(first, 0)]]}]
    for parts in ({"pairs": {0: first}}, *places, *({"messages": [MessageProgram(*one)]} for one in wrong)):
        with pytest.raises(ConfigError, match=r"is no operation: numbers are|must have columns of one length"):
            replace(good, **parts)


@pytest.mark.parametrize("queue", QUEUES[1:])
def test_receive_buffers(queue: str) -> None:
    """Each is held from its RECV to the end of what needs it, by message and slice; check and document say so."""
    sizes: Any = {"devices": 3, "stages": 6, "microbatches": 3, "slices": CUT, "sizes": {"message": [1, 2, 3]}}
    problem = make_problem(**sizes, forward=1, backward=2, p2p=0.25, messages=queue, receive=0.5, budget=99)
    outcome = run(problem, "seq-1f1b", order="given")
    schedule, index = outcome.schedule, outcome.schedule.plan.index
    content = json.loads(json_text.dump(documents.document(outcome)))
    for device, row in enumerate(content["queue"]):
        ends: dict[str, float] = {}  # of slots, and of messages, which occupy the device one after another
        for one in sorted([*row, *content["devices"][device]], key=lambda one: (one["start"], one["end"])):
            ends[one["op"]] = one["end"]
        changes = []
        for entry in row:
            stage, kind = entry["op"].split("RECV_") if "RECV" in entry["op"] else ("", "")
            if kind:
                microbatch, part = map(int, kind[1:].split("."))
                size = 0.5 * [1, 2, 3][microbatch] * [0.25, 0.75][part]
                before = [end for end in ends.values() if end <= entry["start"]] if queue == "device" else []
                changes += [(max(before, default=0), size), (ends[stage + kind], -size)]
        levels = [sum(size for time, size in changes if time <= now) for now, _ in changes]
        assert schedule.peak_of("received")[device] == max(levels)
        assert content["metrics"]["peak_received"][device] == max(levels)
    assert index.slices == 2
    assert check(schedule) == []
    assert sum(schedule.peak_memory) > sum(requeued(schedule, queue).peak_of("activations"))
    assert check(documents.parse(json_text.dump(documents.document(outcome)), "text")) == []


def test_receive_buffers_need_a_queue() -> None:
    """They are refused where messages are free; a budget counts them."""
    with pytest.raises(ConfigError, match="receive: has no effect where messages are free"):
        make_problem(devices=2, receive=1)
    with pytest.raises(ConfigError, match="receive: must be at least 0, not -1"):
        make_problem(devices=2, receive=-1, messages="rank")
    outcome = run(make_problem(devices=2, microbatches=4, receive=1, messages="rank", budget=4), "1f1b")
    assert outcome.schedule.peak_memory == [6, 5]
    assert [*check(outcome)] == ["device 0 holds 6 of 4 microbatch: over the budget by 2",
                                 "device 1 holds 5 of 4 microbatch: over the budget by 1"]  # fmt: skip


def test_receive_buffers_of_pairs() -> None:
    """Where messages differ in size, the buffer of a pair's gradient is that of its microbatch, as the check has it."""
    costs: dict[str, Any] = {"forward": 1, "backward": 2, "overlap": 2.5, "p2p": 0.5, "messages": "rank"}
    sizes = {"message": [*range(1, 9)]}
    schedule = run(make_problem(devices=4, microbatches=8, **costs, receive=1, sizes=sizes), "dualpipe").schedule
    assert schedule.plan.pairs
    assert check(schedule) == []


@pytest.mark.parametrize("queue", QUEUES[1:])
def test_documents(queue: str) -> None:
    """A document of version 3 has the ends of messages by device, and comes back as it was; free ones have none."""
    outcome = run(problem_of(3, 6, 0.25, queue), "interleaved")
    text = json_text.dump(documents.document(outcome))
    content = json.loads(text)
    assert content["version"] == 3
    assert content["problem"]["messages"] == {"queue": queue, "order": "pytorch"}
    assert content["queue"][0][0] == {"op": "0SEND_F0", "start": 1, "end": 1.25, "after": "0F0"}
    again = documents.parse(text, "text")
    assert check(again) == []
    assert json_text.dump(documents.document(again)) == text
    assert "queue" not in documents.document(run(problem_of(3, 6, 0.25, None), "interleaved"))


@pytest.mark.parametrize("end", ["0SEND_F0", "1RECV_F0"])
def test_a_moved_message_of_a_document_is_found(end: str) -> None:
    """A document in which one end of a message is a tick later is wrong: both ends have one time."""
    content = documents.document(run(problem_of(2, 4, 0.25, "rank"), "interleaved"))
    entry = next(one for row in content["queue"] for one in row if one["op"] == end)
    entry["start"], entry["end"] = entry["start"] + 0.25, entry["end"] + 0.25
    with pytest.raises(InvalidSchedule, match="are one message, but have two times"):
        documents.parse(json_text.dump(content), "text")


def test_a_tensor_that_is_used_before_it_comes() -> None:
    """The check finds a forward that starts a tick before the message that it needs is there, in a queue."""
    schedule = run(problem_of(3, 6, 0.25, "rank"), "interleaved").schedule
    index, moved = schedule.plan.index, 0
    for number in index.of_kind("SEND_F"):
        op = index.op(number)
        target = index.row("F", op.stage + 1)[op.microbatch]
        if schedule.start_ticks[target] == schedule.end_ticks[number]:
            starts, ends = [*schedule.start_ticks], [*schedule.end_ticks]
            starts[target], ends[target] = starts[target] - 1, ends[target] - 1
            found = check(Schedule(schedule.problem, schedule.plan, starts, ends))
            assert any(f"before {op} is delivered" in sentence for sentence in found)
            moved += 1
    assert moved


def test_explanation() -> None:
    """Idle time in queues has a class of its own, and says behind what a message stands; the sum is all idle time."""
    explained = explain(run(problem_of(3, 6, 0.25, "rank"), "interleaved"))
    assert explained.totals[Idle.QUEUE] == 16.75
    assert sum(explained.totals.values()) == explained.idle
    assert next(gap for gap in explained.gaps if gap.idle is Idle.QUEUE and gap.places).behind is not None
    assert Idle.QUEUE not in explain(run(problem_of(3, 6, 0.25, None), "interleaved")).totals


def test_others_take_queues() -> None:
    """Comparisons, robustness and a solve take messages in queues; a solve plans with free ones and retimes."""
    problem = problem_of(3, 6, 0.25, {"queue": "rank", "order": "best"})
    rows = compare(problem, ["interleaved", "1f1b"])
    assert [entry.outcome.schedule.makespan for entry in rows if entry.outcome] == [44.5, 50.5]
    assert robustness(run(problem, "interleaved"), noise=0, samples=2).rows[0].p50 == 44.5
    solved = solve(problem, time_limit=1, method="portfolio", advice=False)
    assert isinstance(solved, Outcome)
    assert solved.problem.messages == Messages("rank", "best")
    assert check(solved) == []
    assert solved.report is not None
    assert solved.report.value == solved.schedule.makespan >= solved.report.lower_bound


def test_a_plan_keeps_its_messages_in_another_queue() -> None:
    """A plan with messages keeps them where the problem changes; without queues it has none."""
    schedule = run(problem_of(3, 6, 0.25, {"queue": "rank", "order": "best"}), "interleaved").schedule
    edge = schedule_plan(replace(schedule.problem, messages=Messages("edge")), schedule.plan)
    assert ends_of(edge) == ends_of(schedule)
    assert edge.problem.messages == Messages("edge", "file")
    assert not schedule_plan(replace(schedule.problem, messages=None), schedule.plan).plan.messages

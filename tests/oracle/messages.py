"""Messages in queues, a second time: which there are, where PyTorch puts them, and an event simulation of the queues.

Programs are lists of texts, queues are lists whose heads are taken. Nothing of the package is imported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.replay import Stuck
from tests.oracle.setup import ZERO
from tests.oracle.step_replay import Texts, graph_of, issued_turns, needs_of
from tests.oracle.step_setup import Step, parse, parts

Ends = Sequence[Sequence[tuple[str, "str | None"]]]  # of each device, SEND and RECV, each behind a slot


class Message(NamedTuple):
    """A message: what makes and what needs it, from where to where, how long it takes, and the texts of its ends."""

    source: str
    target: str
    sender: int
    receiver: int
    lasts: Fraction
    ends: tuple[str, str]


class Queued(NamedTuple):
    """The start of each operation and of each message (by its SEND), and the makespan."""

    start: dict[str, Fraction]
    sent: dict[str, Fraction]
    makespan: Fraction


def messages_of(step: Step, plan: Texts) -> list[Message]:
    """All messages of a plan: data that another device needs. Those between stages come first, then items by number."""
    found = _messages(step, plan, plan.devices())
    return sorted(found, key=lambda one: (one.ends[0].partition("_")[2][0] in "EG", parse_number(one.ends[0])))


def parse_number(end: str) -> int:
    """The stage or the item in the text of an end."""
    return int(end.partition("SEND")[0])


def _messages(step: Step, plan: Texts, device_of: dict[str, int]) -> Iterator[Message]:
    for text, device in device_of.items():
        op = parse(text)
        for before, lasts in needs_of(step, plan, device_of, text) if op.kind in "FBIG" else ():
            made = parse(before)
            part = f".{made.slice}" if step.setup.slices > 1 else ""
            if device_of[before] == device or (made.kind in "EBI" and "G" in (op.kind, made.kind) and made.slice):
                continue
            if made.kind == "E" and op.slice == 0 and op.kind == "F":
                ends = f"{made.stage}SEND_E{made.number}", f"{made.stage}RECV_E{made.number}"
            elif op.kind == "G" and made.kind in "BI":
                ends = f"{op.stage}SEND_G{op.number}", f"{op.stage}RECV_G{op.number}"
            elif made.kind == "F" == op.kind or (made.kind in "BI" and op.kind in "BI" and made.stage != op.stage):
                what = "F" if op.kind == "F" else "B"
                ends = f"{made.stage}SEND_{what}{made.number}{part}", f"{op.stage}RECV_{what}{op.number}{part}"
            else:
                continue
            yield Message(before, text, device_of[before], device, lasts, ends)


def by_pytorch(step: Step, plan: Texts) -> Ends:
    """Where PyTorch puts the ends of messages: ranks take turns, gathers, frees and reductions included."""
    made = messages_of(step, plan)
    left = [deque(_turns(step, plan, device)) for device in range(len(plan.rows))]
    ends: list[list[tuple[str, str | None]]] = [[] for _ in left]
    last: list[str | None] = [None for _ in left]
    done, slots = set[str](), {text for row in plan.rows for slot in row for text in parts(slot)}
    while any(left):
        before = len(done), sum(map(len, left))
        for device, row in enumerate(left):
            needed = [one.source for one in made if row and one.target in parts_or_none(row[0])]
            needed += [one for one, other in plan.waits if row and one in slots and other in parts_or_none(row[0])]
            if not row or not done.issuperset(needed):
                continue
            cell = row.popleft()
            if not parts_or_none(cell):
                continue
            last[device] = cell
            done.update(parts(cell))
            for text in parts(cell):
                for one in made:
                    if one.source == text:
                        ends[one.sender].append((one.ends[0], last[one.sender]))
                        ends[one.receiver].append((one.ends[1], last[one.receiver]))
        if before == (len(done), sum(map(len, left))):
            raise Stuck([row[0] for row in left if row])
    return ends


def _turns(step: Step, plan: Texts, device: int) -> Iterator[str]:
    """All turns of a device: slots, and what PyTorch gathers, frees and reduces between them, three stages ahead."""
    row = plan.rows[device]
    last = {parse(text).stage: slot for slot in row for text in parts(slot) if parse(text).kind in "BW"}
    if step.level == "weights":
        program = [(text, after) for text, after in plan.programs[device] if "TIED" not in text]
        reduced = {parse(text).stage for text, _ in program if "REDUCE" in text}
    else:
        places = [None, *row]
        program = [(text, places[at + 1]) for at, texts in issued_turns(row, 3).items() for text in texts]
        reduced = set()
    for slot in (None, *row):
        yield from [slot] if slot is not None else []
        yield from (f"{stage}REDUCE_GRAD" for stage, end in last.items() if end == slot and stage not in reduced)
        yield from (text for text, after in program if after == slot)


def parts_or_none(cell: str) -> list[str]:
    """The operations of a slot; none of a gather, a free or a reduction."""
    return [] if any(kind in cell for kind in ("SHARD", "REDUCE")) else [*parts(cell)]


def replay_queued(step: Step, plan: Texts, queue: str, programs: Ends) -> Queued:  # noqa: C901, PLR0912  plain
    """Run slots, lanes and messages, each message when it heads its queues. Raises Stuck."""
    graph, messages = graph_of(step, plan), messages_of(step, plan)
    by_end = {end: one for one in messages for end in one.ends}
    rows: list[deque[str]] = []
    for device, program in enumerate(programs):
        ends = [text for text, _ in program]
        if queue == "device":
            rows.append(deque(_merged(plan.rows[device], program)))
        elif queue == "rank":
            rows.append(deque(ends))
        else:
            for other in range(len(programs)):
                sent = [end for end in ends if by_end[end].sender == device and by_end[end].receiver == other]
                both = [end for end in ends if other in (by_end[end].sender, by_end[end].receiver) and other != device]
                rows.append(deque(sent if queue == "edge" else both))
    clock, start, end = [ZERO] * len(rows), dict[str, Fraction](), dict[str, Fraction]()
    at, free = dict[int, Fraction](), dict[int, Fraction]()
    waits = {one.target: [other for other in messages if other.target == one.target] for one in messages}
    moved = True
    while moved:
        moved = False
        for number, node in enumerate(graph.nodes):
            inputs = graph.inputs[number]
            needed = [one.ends[0] for text in node.ops for one in waits.get(text, ())]
            if number in at or not all(one in free for one, _ in inputs) or not all(one in end for one in needed):
                continue
            begin = max([ZERO, *(free[one] + late for one, late in inputs), *(end[one] for one in needed)])
            heads = [row for row, items in enumerate(rows) if queue == "device" and node.ops[0] in items]
            if any(rows[row][0] != node.ops[0] for row in heads):
                continue
            begin = max([begin, *(clock[row] for row in heads)])
            at[number], free[number], moved = begin, begin + node.duration, True
            for row in heads:
                rows[row].popleft()
                clock[row] = free[number]
        for one in messages:
            there = [row for row, items in enumerate(rows) if items and items[0] in one.ends]
            standing = [row for row, items in enumerate(rows) if {*items} & {*one.ends}]
            if one.ends[0] in start or graph.node_of[one.source] not in free or there != standing:
                continue
            begin = max([free[graph.node_of[one.source]], *(clock[row] for row in there)])
            start[one.ends[0]], end[one.ends[0]], moved = begin, begin + one.lasts, True
            for row in there:
                rows[row].popleft()
                clock[row] = begin + one.lasts
    if len(at) < len(graph.nodes) or len(start) < len(messages):
        raise Stuck([row[0] for row in rows if row])
    starts = {text: at[node] for text, node in graph.node_of.items()}
    return Queued(starts, start, max(free.values()))


def _merged(row: Sequence[str], program: Sequence[tuple[str, str | None]]) -> Iterator[str]:
    """All that a device does, one by one: its slots (of a pair the forward), and behind each what it issues there."""
    for slot in (None, *row):
        if slot is not None:
            yield parts(slot)[0]
        yield from (text for text, after in program if after == slot)

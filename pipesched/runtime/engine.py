"""Run a rank's list, by `Engine.step`: hand each operation its inputs, pass on what it gives, and measure it.

The list is `programs` of program.py; a `StageRunner` runs an operation, channels.py sends, `report_of` tells times.
Measured are when operations ran, how long they waited, and the bytes that were alive. Times are marks of the device,
which is a GPU's own clock where the host only enqueues; see `Transfers.mark`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch.profiler import record_function

from pipesched.pipeline.problem.kinds import KINDS
from pipesched.pipeline.problem.ops import Op
from pipesched.runtime.activation import Transfers
from pipesched.runtime.channels import Shape, header_of, shapes_of
from pipesched.runtime.program import RECEIVE, RUN, SEND, ProgramStep, taker_of
from pipesched.runtime.stage import StageRunner, has_gradient

OperationRecord = tuple[Op, Any, Any, Any, int, int]


def report_of(
    rank: int, step: int, entries: Sequence[OperationRecord], between: Callable[[Any, Any], float]
) -> dict[str, Any]:
    """Return the document of a step: milliseconds since its first operation (`between` two marks), and bytes.

    An entry is an operation, marks of when it was its turn, its input was there, and it ended, the bytes of all
    activations of the rank behind it, and those that it moved.
    """
    first = entries[0][1] if entries else None
    begin = min((between(first, turn) for _, turn, *_ in entries), default=0.0)
    filled: dict[tuple[int, int], int] = {}
    before, freed, held, operations = 0, 0, 0, list[dict[str, Any]]()
    for op, turn, start, end, live, moved in entries:
        owner, kind = (op.stage, op.microbatch), KINDS[op.kind]
        if kind.is_transfer and kind.gives:
            freed += moved
            held += filled.get(owner, 0)
        filled[owner] = filled.get(owner, 0) + live - before
        before = live
        times = {"start": between(first, start) - begin, "end": between(first, end) - begin}
        operations.append({"op": str(op), **times, "waited": between(turn, start), "live_bytes": live})
    return {
        "rank": rank,
        "step": step,
        "time_unit": "ms",
        "operations": operations,
        "peak_bytes": max((one["live_bytes"] for one in operations), default=0),
        "live_bytes": before,
        "offloaded_bytes": freed,
        "freed_fraction": freed / held if held else None,
    }


class MessageKey(NamedTuple):
    """A message: the stage that takes it, whether it goes forwards, and its microbatch."""

    target: int
    forwards: bool
    microbatch: int


class Engine:
    """What a rank does in a step."""

    def __init__(
        self,
        program: Sequence[ProgramStep],
        stages: int,
        runners: Mapping[int, StageRunner],
        channels: Any,
        transfers: Transfers,
        on_op: Callable[[str], None] | None,
        collective: Callable[[str], None] | None = None,
    ) -> None:
        self._program, self._stages, self._runners, self._channels = program, stages, runners, channels
        self._transfers, self._on_op, self._collective = transfers, on_op, collective
        self._again = {(op.stage, op.microbatch) for action, op, *_ in program if action == RUN and op.kind == "R"}
        self._from = {self._key(step.op): step.peer for step in program if step.action == RECEIVE}
        self._here: dict[MessageKey, Any] = {}  # messages that have been made, or posted, and not been taken
        self.shapes = dict[MessageKey, list[Shape]]()  # emptied where those of inputs change, from which they follow
        self._bytes_moved = 0
        self.doing = "the begin of the step"
        self.measured: list[OperationRecord] = []  # of the last step
        self._inputs: Any = None
        self._targets: Any = None
        self._losses: dict[int, Any] = {}

    def _key(self, op: Op) -> MessageKey:
        target = taker_of(op, self._stages)
        assert target is not None  # as a message is of an operation that gives something
        return MessageKey(target, target > op.stage, op.microbatch)

    def step(self, inputs: Any, targets: Any) -> dict[int, Any]:
        """Run the list once, and return the losses by microbatch."""
        self._inputs, self._targets, self._losses = inputs, targets, {}
        self.measured, live, holding = [], 0, dict[tuple[int, int], int]()
        try:
            for step in self._program:
                self.doing = str(step)
                if step.action == RUN:
                    op, name, runner = step.op, str(step.op), self._runners[step.op.stage]
                    self._transfers.before_operation(step.offloads)
                    self._channels.drop_sent()
                    turn = self._wait_for_input(op, name)
                    self._bytes_moved = 0
                    start = self._transfers.mark(op.kind)
                    with record_function(f"PP:{name}"):
                        self._run(op, runner)
                    end = self._transfers.mark(op.kind)
                    turn, owner = start if turn is None else turn, (op.stage, op.microbatch)
                    held = runner.live_bytes(op.microbatch)
                    live += held - holding.get(owner, 0)
                    holding[owner] = held
                    self.measured.append((op, turn, start, end, live, self._bytes_moved))
                    if self._on_op is not None:
                        self._on_op(name)
                elif step.action == RECEIVE:
                    if self._channels.posts_early:  # where a receive must be in the order of the list
                        self._receive(self._key(step.op), step.peer, self._channels.post)
                elif step.action == SEND:
                    self._send(step)
                elif self._collective is not None:  # the user's code does what the step has beside its passes
                    self._collective(str(step.op))
            self.doing = "the end of the step"
            self._channels.flush()
            self._transfers.finish()
            return self._losses
        finally:
            self._inputs = self._targets = None
            self._losses = {}
            self._here.clear()

    def _run(self, op: Op, runner: StageRunner) -> None:
        """Run an operation: its inputs are in `_here`, and there it leaves what it gives."""
        if op.kind == "F":
            self._forward(runner, op.microbatch)
        elif op.kind in ("B", "I"):  # which take the gradients of the output, and give those of the input
            self._transfers.before_backward(runner.held[op.microbatch].activation)
            key = MessageKey(op.stage, False, op.microbatch)
            gradients = [] if runner.is_last else self._here.pop(key)
            found = (runner.backward if op.kind == "B" else runner.input_gradient)(op.microbatch, gradients)
            if op.stage:
                self._here[key._replace(target=op.stage - 1)] = found
        elif op.kind in ("O", "L"):
            move = self._transfers.offload if op.kind == "O" else self._transfers.load
            activation = runner.held[op.microbatch].activation
            self._bytes_moved = 0 if activation is None else move(activation)
        else:
            (runner.weight_gradient if op.kind == "W" else runner.recompute)(op.microbatch)

    def _wait_for_input(self, op: Op, name: str) -> Any:
        """Wait for what another rank sends for an operation, and return the mark of when that began; None without."""
        key = MessageKey(op.stage, op.kind == "F", op.microbatch)
        if op.kind not in ("F", "B", "I") or key not in self._from:
            return None
        turn = self._transfers.mark(op.kind)
        with record_function(f"WAIT:{name}"):
            if key in self._here:  # posted
                self._here[key] = self._channels.arrived(self._here[key])
                return turn
            self._receive(key, self._from[key], self._channels.receive)
        return turn

    def _receive(self, key: MessageKey, peer: int, take: Callable[..., Any]) -> None:
        """Take a message from a rank, or begin to: its shapes come first where they are not known."""
        tag = self._tag(key)
        if key not in self.shapes:
            self.shapes[key] = self._channels.receive_header(peer, tag + 1)
        self._here[key] = take(peer, tag, self.shapes[key], self._runners[key.target].device)

    def _send(self, step: ProgramStep) -> None:
        """Send what an operation gave; the first forward of a step sends its shapes before."""
        key = self._key(step.op)
        tensors = self._here.pop(key)
        if key.forwards:
            shapes = shapes_of(tensors)
            known = self.shapes.setdefault(key, [])
            if not known:
                self._channels.send(step.peer, self._tag(key) + 1, [header_of(shapes)])
                known += shapes
            elif known != shapes:
                before, now = (", ".join(map(str, each)) for each in (known, shapes))
                what = f"its output is {now}; a step before it was {before}"
                raise RuntimeError(f"{what}, and must stay so with inputs of these shapes")
        self._channels.send(step.peer, self._tag(key), tensors)

    def _tag(self, key: MessageKey) -> int:
        return 4 * (key.microbatch * self._stages + key.target) + 2 * key.forwards

    def _forward(self, runner: StageRunner, microbatch: int) -> None:
        stage = runner.stage
        if runner.is_first:
            given = self._inputs[microbatch]
            data = given if isinstance(given, (tuple, list)) else (given,)
        else:
            data = self._here.pop(MessageKey(stage, True, microbatch))
        target = self._targets[microbatch] if runner.is_last else None
        outputs, loss = runner.forward(microbatch, data, target, again=(stage, microbatch) in self._again)
        if runner.is_last:
            self._losses[microbatch] = loss
            return
        self._here[MessageKey(stage + 1, True, microbatch)] = outputs
        back = MessageKey(stage, False, microbatch)
        if back in self._from:
            self.shapes[back] = shapes_of([output for output in outputs if has_gradient(output)])

"""Messages between neighbouring stages by gloo, `Channels`: a connection for each ordered pair of ranks with any.

They pass through the memory of the host: CPUs have them there, and GPUs that ranks share, which NCCL does not serve.

A thread of each connection waits for the ends of its sends, because gloo does not tell of them otherwise; a receive
makes its buffer when the tensor is needed. So no rank waits where its plan does not, and buffers live no longer than
they must. Tags tell messages apart, so a rank need not take them in the order in which they were sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, NamedTuple
from weakref import finalize

import torch

from pipesched.runtime.team import LostRank, Team

LENGTH = 256  # numbers in a header
_DTYPES = sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)}, key=str)


class Shape(NamedTuple):
    """The size and the type of a tensor."""

    size: tuple[int, ...]
    dtype: Any

    def __str__(self) -> str:
        return f"{list(self.size)} {str(self.dtype).removeprefix('torch.')}"


def shapes_of(tensors: Sequence[Any]) -> list[Shape]:
    """Return the shapes of tensors."""
    return [Shape(tuple(tensor.shape), tensor.dtype) for tensor in tensors]


def header_of(shapes: Sequence[Shape]) -> Any:
    """Return the header of tensors. Raises ValueError for more than fit in."""
    numbers = [len(shapes)]
    for shape in shapes:
        numbers += [_DTYPES.index(shape.dtype), len(shape.size), *shape.size]
    if len(numbers) > LENGTH:
        raise ValueError(f"a stage returned {len(shapes)} tensors; their shapes do not fit in a header")
    return torch.tensor(numbers + [0] * (LENGTH - len(numbers)), dtype=torch.int64)


def shapes_of_header(header: Any) -> list[Shape]:
    """Return the shapes in a header."""
    numbers = iter(header.tolist())
    return [
        Shape(size=tuple(next(numbers) for _ in range(dimensions)), dtype=_DTYPES[dtype])
        for dtype, dimensions in ((next(numbers), next(numbers)) for _ in range(next(numbers)))
    ]


class Channels:
    """The connections of a rank: `pairs` are all (sender, receiver) of the plan, the same on every rank."""

    posts_early = False

    def __init__(self, team: Team, pairs: Iterable[tuple[int, int]]) -> None:
        self._outgoing: dict[int, _Outbox] = {}
        self._incoming: dict[int, Any] = {}
        for sender, receiver in sorted(pairs):
            if team.rank in (sender, receiver):
                group = team.connect(f"{sender}to{receiver}", (sender, receiver))
                if team.rank == sender:
                    self._outgoing[receiver] = _Outbox(group)
                else:
                    self._incoming[sender] = group

    def send(self, peer: int, tag: int, tensors: Sequence[Any]) -> None:
        """Send tensors, which must not change afterwards."""
        try:
            self._outgoing[peer].put(tag, tensors)
        except RuntimeError as error:
            raise LostRank(peer, error) from None

    def receive(self, peer: int, tag: int, shapes: Sequence[Shape], device: Any) -> list[Any]:
        tensors = [torch.empty(shape.size, dtype=shape.dtype) for shape in shapes]
        for tensor in tensors:
            if tensor.numel():
                try:
                    self._incoming[peer].recv([tensor], 0, tag).wait()
                except RuntimeError as error:
                    raise LostRank(peer, error) from None
        return [tensor.to(device) for tensor in tensors]

    def receive_header(self, peer: int, tag: int) -> list[Shape]:
        return shapes_of_header(*self.receive(peer, tag, [Shape((LENGTH,), torch.int64)], "cpu"))

    def drop_sent(self) -> None:
        for peer, outbox in self._outgoing.items():
            outbox.drop(peer)

    def flush(self) -> None:
        """Wait until all that was sent has been received."""
        for peer, outbox in self._outgoing.items():
            outbox.flush(peer)

    def close(self) -> None:
        for outbox in self._outgoing.values():
            outbox.close()
        self._outgoing.clear()
        self._incoming.clear()


class _Outbox:
    """What a rank sends to another: each send begins at once, and its tensor is kept until it has ended."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._ended: deque[Exception | None] = deque()  # filled by the thread: one entry a send, in order
        self._kept: deque[Any] = deque()
        self._thread = Thread(target=_wait_for_sends, args=(self._queue, self._ended), daemon=True)
        self._thread.start()
        self._end = finalize(self, self._queue.put, None)

    def put(self, tag: int, tensors: Sequence[Any]) -> None:
        for tensor in tensors:
            if tensor.numel():
                whole = tensor.cpu().contiguous()
                self._kept.append(whole)
                self._queue.put(self._group.send([whole], 1, tag))

    def drop(self, peer: int) -> None:
        """Let go of what has been received. Raises LostRank for a send that failed."""
        while self._ended:
            error = self._ended.popleft()
            self._kept.popleft()
            if error is not None:
                raise LostRank(peer, error)

    def flush(self, peer: int) -> None:
        done = Event()
        self._queue.put(done)
        done.wait()
        self.drop(peer)

    def close(self) -> None:
        self._end()
        self._thread.join()
        self._kept.clear()
        self._group = None


def _wait_for_sends(queue: SimpleQueue[Any], ended: deque[Exception | None]) -> None:
    """Wait for each send in the queue until None comes. Tensors are dropped elsewhere, by the thread that made them."""
    while (entry := queue.get()) is not None:
        if isinstance(entry, Event):
            entry.set()
            continue
        error = None
        try:
            entry.wait()
        except Exception as wrong:  # for the thread that sends
            error = wrong
        del entry
        ended.append(error)

"""`CudaTransfers` and `CudaChannels`: transfers and messages on GPUs, by streams for copies, pinned buffers and NCCL.

The host enqueues a whole step without waiting for the device. So a storage that leaves must be referenced until its
copy is done in the order of the device. That is until the first operation of the computing stream that waits for the
copy. `Transfers` and `Channels` are the same without GPUs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from threading import Lock, Thread
from time import sleep
from typing import Any

import torch
import torch.distributed as dist

from pipesched.pipeline.problem.kinds import KINDS
from pipesched.runtime.activation import Activation, Host, Transfers
from pipesched.runtime.channels import LENGTH, Shape, shapes_of_header
from pipesched.runtime.team import MEETING, PATIENCE, Team
from pipesched.runtime.torch_internals import nccl_group

REAPED = 0.25  # seconds: NCCL's watchdog of a rank looks every 0.1, and must take what ended before the other end goes

_FAILED = list[Any]()  # groups, which are kept: their end waits for a watchdog that may wait for Python's lock


class CudaTransfers(Transfers):
    """Copies on a stream to the host and another one back, while a third computes."""

    def __init__(self, host: Host | None) -> None:
        self._pool: dict[int, list[Any]] = {}
        self._is_pooled = host is None
        super().__init__(host or self._pinned)
        self._out, self._in = torch.cuda.Stream(), torch.cuda.Stream()
        # Copies to the host, and the storages that they read, which are dropped when the computing stream waits for it.
        self._leaving: deque[tuple[Any, list[Any]]] = deque()
        self._left = 0  # offloads of this step that the computing stream has waited for
        self._copied: dict[int, Any] = {}  # by the id of an activation: the event behind its offload
        self._loaded: dict[int, Any] = {}  # and that behind its load
        self._returning: deque[tuple[Any, list[Any]]] = deque()  # pinned buffers that a load still reads

    def _pinned(self, nbytes: int) -> Any:
        free = self._pool.get(nbytes)
        return free.pop() if free else torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)

    def offload(self, activation: Activation) -> int:
        self._out.wait_stream(torch.cuda.current_stream())
        storages = [box.storage for box in activation.boxes() if box.storage is not None]
        with torch.cuda.stream(self._out):
            moved = super().offload(activation)
        copied = self._copied[id(activation)] = self._out.record_event()
        self._leaving.append((copied, storages))
        return moved

    def before_operation(self, offloads: int) -> None:
        """Let the computation wait for so many offloads, and drop what they read: what comes next may lie there."""
        compute = torch.cuda.current_stream()
        while self._leaving and self._left < offloads:
            compute.wait_event(self._leaving.popleft()[0])
            self._left += 1
        while self._returning and self._returning[0][0].query():
            for buffer in self._returning.popleft()[1]:
                self._pool.setdefault(buffer.numel(), []).append(buffer)

    def load(self, activation: Activation) -> int:
        """Begin to bring an activation back; its storages belong to the computing stream."""
        moved, buffers = 0, list[Any]()
        boxes = [box for box in activation.boxes() if box.host is not None]
        places = [torch.empty(box.nbytes, dtype=torch.uint8, device=box.device) for box in boxes]
        self._in.wait_stream(torch.cuda.current_stream())
        copied = self._copied.pop(id(activation), None)
        if copied is not None:
            self._in.wait_event(copied)
        with torch.cuda.stream(self._in):
            for box, place in zip(boxes, places, strict=True):
                place.copy_(box.host, non_blocking=True)
                buffers.append(box.host)
                box.storage, box.host = place.untyped_storage(), None
                moved += box.nbytes
        event = self._loaded[id(activation)] = self._in.record_event()
        if self._is_pooled:
            self._returning.append((event, buffers))
        else:
            event.synchronize()  # a buffer that is not ours may be used again at once
        return moved

    def before_backward(self, activation: Activation | None) -> None:
        event = self._loaded.pop(id(activation), None)
        if event is not None:
            torch.cuda.current_stream().wait_event(event)

    def finish(self) -> None:
        """Wait for the device, so that what a step measured is over when it ends."""
        self.before_operation(self._left + len(self._leaving))
        self._left = 0
        for stream in (torch.cuda.current_stream(), self._out, self._in):
            stream.synchronize()
        self.before_operation(0)

    def mark(self, kind: str) -> Any:
        """Return an event of the stream that runs operations of this kind, behind what was computed before."""
        stream = None
        if KINDS[kind].is_transfer:
            stream = self._out if KINDS[kind].gives else self._in
            stream.wait_stream(torch.cuda.current_stream())
        event = torch.cuda.Event(enable_timing=True)
        event.record(stream)
        return event

    def milliseconds(self, first: Any, second: Any) -> float:
        took: float = first.elapsed_time(second)
        return took


class CudaChannels:
    """Messages by NCCL: a communicator for each ordered pair of ranks, made and warmed up in one order on all ranks.

    A receive is posted where it stands in the list of the rank, because NCCL runs what passes between two ranks in
    the order in which it was enqueued.
    """

    posts_early = True

    def __init__(self, team: Team, pairs: Iterable[tuple[int, int]]) -> None:
        self._outgoing: dict[int, Any] = {}
        self._incoming: dict[int, Any] = {}
        self._sent: deque[tuple[Any, Any]] = deque()
        self._device = torch.device("cuda", torch.cuda.current_device())
        self._team, self._ending, self._is_ended = team, Lock(), False
        team.watch(self.abort)
        try:
            for sender, receiver in sorted(pairs):
                if team.rank in (sender, receiver):
                    store = dist.PrefixStore(f"{sender}to{receiver}", self._team.store)
                    store.set_timeout(MEETING)
                    group = nccl_group(store, int(self._team.rank == receiver), self._device, PATIENCE)
                    with self._ending:
                        self._team.require_all()
                        if self._team.rank == sender:
                            self._outgoing[receiver] = group
                        else:
                            self._incoming[sender] = group
                    ball = torch.zeros(1, device=self._device)
                    (group.send([ball], 1, 0) if self._team.rank == sender else group.recv([ball], 0, 0)).wait()
            self._await_device()
        except BaseException:
            self.abort()
            raise

    def send(self, peer: int, tag: int, tensors: Sequence[Any]) -> None:
        for tensor in tensors:
            if tensor.numel():
                whole = tensor.to(self._device).contiguous()  # a header comes from the memory of the host
                self._sent.append((self._outgoing[peer].send([whole], 1, 0), whole))

    def receive_header(self, peer: int, tag: int) -> list[Shape]:
        header = torch.empty(LENGTH, dtype=torch.int64, device=self._device)
        self._incoming[peer].recv([header], 0, 0).wait()
        self._await_device()
        return shapes_of_header(header.cpu())

    def post(self, peer: int, tag: int, shapes: Sequence[Shape], device: Any) -> list[Any]:
        posted = []
        for shape in shapes:
            tensor = torch.empty(shape.size, dtype=shape.dtype, device=device)
            posted.append((self._incoming[peer].recv([tensor], 0, 0) if tensor.numel() else None, tensor))
        return posted

    def arrived(self, posted: Sequence[Any]) -> list[Any]:
        for work, _ in posted:
            if work is not None:
                work.wait()
        return [tensor for _, tensor in posted]

    def receive(self, peer: int, tag: int, shapes: Sequence[Shape], device: Any) -> list[Any]:
        return self.arrived(self.post(peer, tag, shapes, device))

    def drop_sent(self) -> None:
        while self._sent and self._sent[0][0].is_completed():
            self._sent.popleft()

    def flush(self) -> None:
        """Wait until all that was sent has been received, and this device has done all it was given."""
        for work, _ in self._sent:
            work.wait()
        self._await_device()
        self._sent.clear()

    def _await_device(self) -> None:
        """Wait for the computing stream. Raises LostRank where another rank is gone."""
        torch.cuda.current_stream().synchronize()
        self._team.require_all()

    def abort(self) -> None:
        """End the communicators after a failure, and so the kernels that wait in them and whoever waits for these."""
        _FAILED.extend(self._end())

    def _end(self) -> list[Any]:
        with self._ending:
            groups = [] if self._is_ended else [*self._outgoing.values(), *self._incoming.values()]
            self._is_ended = True
            threads = [Thread(target=group.abort) for group in groups]  # at once: kernels of one wait for another's
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return groups

    def close(self) -> None:
        if self._team.is_closed:
            self.abort()
        elif self._outgoing or self._incoming:
            sleep(REAPED)
            self._end()
        self._sent.clear()
        self._outgoing.clear()
        self._incoming.clear()

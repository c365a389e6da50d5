"""The ranks of a run: what they agree on before it, and how a failure of one ends the step of all.

A `Team` is made, `agree` compares the plans of all ranks, `connect` makes connections, and `stop` ends them on failure.
A failing rank writes why into the store that the ranks met at, and then closes its connections. Whoever waits for it
gets an error at once, reads the reason, and closes its own: so all ranks learn of it, one from another. A rank that is
killed closes its connections without a reason; then the first that notices writes one.

A wait in NCCL gets no such error. There `watch` has a thread wait on a connection of gloo to the next rank. Gloo has no
way to close one but a wait that times out: `_receive_nothing` lets one of a millisecond do so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from threading import Event, Thread
from typing import Any
from uuid import uuid4
from weakref import WeakMethod, finalize

import torch
import torch.distributed as dist

from pipesched.checks import cut
from pipesched.errors import ConfigError, RankFailed
from pipesched.runtime.torch_internals import gloo_group, store_of

PATIENCE = timedelta(minutes=30)  # for a message of a rank that lives
MEETING = timedelta(seconds=60)  # for a rank to come to where connections are made
UNUSED_TAG = 2**31 - 1
LONGEST = 2000  # letters of a reason


class LostRank(RuntimeError):
    """The connection to a rank has ended: it is gone, or it has closed its own because another one is."""

    def __init__(self, peer: int, error: BaseException) -> None:
        super().__init__(str(error))
        self.peer = peer


def is_lost(error: BaseException) -> bool:
    """Return whether an exception is that of a connection that has ended."""
    if isinstance(error, (LostRank, dist.DistError)):
        return True
    return isinstance(error, RuntimeError) and ("gloo" in str(error) or "NCCL" in str(error))


class Team:
    """The ranks of a process group, one a device; without torch.distributed this process alone."""

    def __init__(self, group: Any) -> None:
        self.rank, self.size, self._group, self.store = 0, 1, None, None
        self._is_joined = dist.is_available() and dist.is_initialized()
        if self._is_joined:
            self._group = group if group is not None else dist.group.WORLD
            self.rank, self.size = dist.get_rank(self._group), dist.get_world_size(self._group)
            if self.rank < 0:
                raise ConfigError("this process is none of its ranks", "group")
            self.store = store_of(self._group) if self.size > 1 else None
        self.shares_gpus = False
        self._control: Any = None
        # One for all steps: a thread of gloo may hold it longer than the call, and would free it within a step.
        self._count = torch.zeros(1, dtype=torch.int64)
        self._groups: list[Any] = []
        self._watch: Thread | None = None
        self._gone = Event()

    def require_size(self, devices: int) -> None:
        """Raise ConfigError unless there is one rank for each of `devices`."""
        if self.size == devices:
            return
        if not self._is_joined:
            what = f"{devices} devices are {devices} processes that torch.distributed.init_process_group joins"
            raise ConfigError(f"{what}; it was not called", "group")
        raise ConfigError(f"has {self.size} ranks; the schedule needs one for each of its {devices} devices", "group")

    def agree(self, plan: str, error: Exception | None, gpu: str | None = None) -> None:
        """Compare plans, and raise on every rank what makes one of them stop: its own error, or RankFailed.

        `gpu` tells the GPU of this rank from others, so that all know whether some share one.
        """
        verdict = (plan, None if error is None else text_of_error(error), uuid4().hex, gpu)  # the third names the run
        verdicts: list[Any] = [verdict]
        if self.size > 1:
            verdicts = [None] * self.size
            try:
                dist.all_gather_object(verdicts, verdict, group=self._group)
            except RuntimeError as lost:
                if error is None:
                    raise RankFailed(f"a rank is gone: rank {self.rank} cannot compare its schedule: {lost}") from None
        if error is not None:
            raise error
        for rank, (theirs, wrong, *_) in enumerate(verdicts):
            if wrong is not None:
                raise RankFailed(f"rank {rank} cannot run the schedule: {wrong}")
            if theirs != plan:
                raise RankFailed(f"rank {rank} has another schedule than rank {self.rank}")
        gpus = [name for *_, name in verdicts if name is not None]
        self.shares_gpus = len(set(gpus)) < len(gpus)
        if self.size > 1:
            name_of_run = verdicts[0][2]  # that of rank 0
            self.store = dist.PrefixStore(f"pipesched/{name_of_run}", self.store)
            self._control = self.connect("control", range(self.size))

    def connect(self, name: str, ranks: range | tuple[int, ...]) -> Any:
        """Return a gloo group of some ranks, in this order; all of them must call this, and in one order of names."""
        store = dist.PrefixStore(name, self.store)
        store.set_timeout(MEETING)
        group = gloo_group(store, ranks.index(self.rank), len(ranks), PATIENCE)
        self._groups.append(group)
        return group

    @contextmanager
    def setting_up(self) -> Iterator[None]:
        """Tell the other ranks what goes wrong while connections are made. Raises RankFailed where another is gone."""
        try:
            yield
        except BaseException as error:
            failed = f"the setting up of connections on rank {self.rank} failed: {text_of_error(error)}"
            reason = self.stop(error, failed, f"a rank is gone: {failed}")
            if reason is not None:
                raise RankFailed(reason) from None
            raise

    def watch(self, give_up: Callable[[], None]) -> None:
        """Call a method, if it still exists, when the next rank is gone or has closed, whatever this one waits for."""
        if self.size > 1:
            group = self.connect("watch", range(self.size))
            given = (group, self._gone, WeakMethod(give_up))
            self._watch = Thread(target=_wait_in_vain, args=given, daemon=True)
            self._watch.start()
            finalize(self, _receive_nothing, group).atexit = False  # the end of the process closes it too

    def require_all(self) -> None:
        """Raise LostRank where the next rank is gone."""
        if self._gone.is_set():
            raise LostRank((self.rank + 1) % self.size, RuntimeError("gone"))

    def meet(self) -> None:
        if self._control is not None:
            self._control.barrier().wait()

    def any(self, here: bool) -> bool:
        """Return whether something is so on any rank; all of them must call this."""
        if self._control is None:
            return here
        self._count.fill_(int(here))
        self._control.allreduce([self._count]).wait()
        return bool(self._count)

    def stop(self, error: BaseException, failed: str, gone: str) -> str | None:
        """Write why this rank stops, unless a reason is known already, and close all connections.

        Return the reason of another rank, or `gone`; None where the error is of this one: `failed` is written then.
        """
        reason = gone if is_lost(error) else None
        if self.store is not None:
            with suppress(RuntimeError):  # the store may be gone, with the process that held it
                if reason is not None and self.store.check(["failed"]):
                    reason = str(self.store.get("failed").decode())
            with suppress(RuntimeError):
                self.store.compare_set("failed", "", cut(reason or failed, LONGEST))
        self.close()
        return reason

    @property
    def is_closed(self) -> bool:
        return self.size > 1 and not self._groups

    def close(self) -> None:
        """Close all connections: whoever waits at their other ends gets an error at once."""
        self._control, groups, self._groups = None, self._groups, []
        for group in groups:
            _receive_nothing(group)
        if self._watch is not None:
            self._watch.join()


def _wait_in_vain(group: Any, gone: Event, give_up: Callable[[], Callable[[], None] | None]) -> None:
    """Wait until the connection to the next rank ends."""
    _receive_nothing(group, UNUSED_TAG - 1, timedelta(days=365))
    gone.set()
    method = give_up()
    if method is not None:
        method()


def _receive_nothing(group: Any, tag: int = UNUSED_TAG, patience: timedelta = timedelta(milliseconds=1)) -> None:
    """Wait for a message that the next rank of a group never sends; a wait that ends without it closes the group."""
    with suppress(RuntimeError):
        group.recv([torch.empty(1, dtype=torch.uint8)], (group.rank() + 1) % group.size(), tag).wait(patience)


def text_of_error(error: BaseException) -> str:
    """Return the type and the message of an exception."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

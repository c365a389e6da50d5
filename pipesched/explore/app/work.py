"""What takes long, in a thread: a solve, or the best move. The app looks now and then whether it is done."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Generic, TypeVar

from pipesched.core.clock import TimeIsUp
from pipesched.errors import PipeschedError
from pipesched.explore.planning import Tell

Result = TypeVar("Result")


class Work(Generic[Result]):
    """A call in a thread. `said` is what it last told; `error` is why it ended without a result, behind its `name`."""

    def __init__(self, name: str, call: Callable[[Event, Tell], Result], done: Callable[[Result], object]) -> None:
        self.stop = Event()
        self.said, self.error = "", ""
        self._name = name
        self._call, self._done = call, done
        self._found: list[Result] = []
        self._crash: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found.append(self._call(self.stop, self._tell))
        except TimeIsUp:
            self.error = f"{self._name}: stopped"
        except PipeschedError as error:
            why = "stopped before anything was found" if self.stop.is_set() else str(error)
            self.error = f"{self._name}: {why}"
        except BaseException as error:
            self._crash = error

    def _tell(self, text: str) -> None:
        self.said = text

    @property
    def is_running(self) -> bool:
        """Whether it is not over yet."""
        return self._thread.is_alive()

    def finish(self) -> None:
        """Hand the result on, once it is over; raise what it could not have expected."""
        if self._crash is not None:
            raise self._crash
        if self._found:
            self._done(self._found[0])

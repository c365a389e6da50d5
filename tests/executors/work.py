"""Pieces of work that other processes do: they stand in a module that workers can import."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from multiprocessing import active_children
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from pipesched import NotApplicable


def squared(number: int) -> int:
    """A piece of work."""
    return number * number


def slowly(number: int) -> int:
    """A piece of work that takes a while."""
    time.sleep(0.02)
    return number * number


def where(_number: int) -> int:
    """The process that does the work."""
    time.sleep(0.1)
    return os.getpid()


def failing(number: int) -> int:
    """Work whose third call is bad input."""
    if number == 2:
        raise NotApplicable("2 is odd", "number")
    return number


def broken(number: int) -> float:
    """Work with a defect."""
    return 1 / number


def interrupting(number: int) -> int:
    """Work that gets Ctrl-C as a terminal sends it to every process of a group."""
    os.kill(os.getpid(), signal.SIGINT)
    return number


def deadly(number: int) -> int:
    """Work whose fourth call always kills the process that does it."""
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


class DeadlyOnce:
    """Work that kills the process that does it at some calls, the first time each."""

    def __init__(self, folder: Path, calls: Sequence[int]) -> None:
        self.folder, self.calls = folder, calls

    def __call__(self, number: int) -> int:
        """Die at a call that nothing has died of yet."""
        time.sleep(0.02)
        mark = self.folder / str(number)
        if number in self.calls and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number * number


class DeadlyWithOthers:
    """Work whose first call dies beside others, as where memory runs out; when repeated it tells how many there are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, number: int) -> int:
        """Be seen by the first call for a while."""
        if number:
            mark = self.folder / str(number)
            mark.touch()
            time.sleep(0.1)
            mark.unlink()
            return 0
        died = self.folder / "died"
        if not died.exists():
            while not any(self.folder.iterdir()):
                time.sleep(0.01)
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.15)
        return len([*self.folder.iterdir()]) - 1


def hiding(_number: int) -> Any:
    """Work whose result cannot be sent."""
    return lambda: 1


class Unsendable(Exception):
    """An exception that cannot be sent, nor be made again."""

    def __reduce__(self) -> Any:
        raise TypeError("no way")


def refusing(_number: int) -> Any:
    """Work that raises it."""
    raise Unsendable


class Noting:
    """Work that notes each call in a file."""

    def __init__(self, log: Path, seconds: float) -> None:
        self.log, self.seconds = log, seconds

    def __call__(self, number: int) -> int:
        """Note the call, and take a while."""
        with self.log.open("a") as file:
            file.write(f"{number}\n")
        time.sleep(self.seconds)
        return number

    def noted(self) -> list[int]:
        """The calls so far."""
        return [int(line) for line in self.log.read_text().split()] if self.log.exists() else []


def workers_left() -> list[BaseProcess]:
    """The processes that were started and have not ended, soon, but for those of the Dask cluster."""
    for _ in range(100):
        left = [process for process in active_children() if "Dask" not in process.name]
        if not left:
            break
        time.sleep(0.05)
    return left

"""Exit codes; `guarded` makes an error one, with a message on stderr, without a traceback; and what Ctrl-C does."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from threading import Event
from types import MappingProxyType
from typing import Any

import typer

from pipesched.cli.groups import spell, spelled
from pipesched.cli.progress import elapsed
from pipesched.core.arrays import HOW_TO, SLOW, compiled_kernels, form_of_kernels
from pipesched.errors import ConfigError, Inexpressible, InvalidSchedule, NoSchedule, RankFailed, WorkerDied

WAITING = ("explore", "profile", "train")  # commands whose time is that of people or of models


class ExitStatus(IntEnum):
    """The exit codes of every command."""

    DONE = 0
    ANSWER_IS_NO = 1  # a budget below the floor, no schedule found, a check that failed, workers that died
    BAD_INPUT = 2
    INTERRUPTED = 130


@contextmanager
def guarded(command: str, read: Mapping[str, Any] = MappingProxyType({})) -> Iterator[None]:
    """Turn every expected error into a message on stderr and an exit code; `read` are options of the command."""
    try:
        yield
        sys.stdout.flush()
        if elapsed() >= SLOW and command not in WAITING and compiled_kernels() is None:
            note = f"kernels run as {form_of_kernels()}; {HOW_TO} for faster ones"
            print(f"pipesched: note: {note}", file=sys.stderr)
    except ConfigError as error:
        given = {*read.get("algorithm", ()), *read.get("family_options", ())}
        raise stop(spelled(error, given), ExitStatus.BAD_INPUT) from None
    except (NoSchedule, InvalidSchedule, Inexpressible, RankFailed, WorkerDied) as error:
        said = with_flags(error)
        answer = error if isinstance(error, NoSchedule) else NoSchedule(said)
        would_fit = f" (would fit: {', '.join(answer.would_fit)})" if answer.would_fit else ""
        if "screen" in read and read["screen"].as_json:
            import json

            content = {"format": "pipesched.infeasible", "version": 1, "reason": spell(answer.reason)}
            content |= {key: getattr(answer, key) for key in ("device", "floor", "budget")}
            print(json.dumps({**content, "would_fit": [*map(spell, answer.would_fit)]}, indent=1))
        raise stop(said + spell(would_fit), ExitStatus.ANSWER_IS_NO) from None
    except BrokenPipeError:
        quiet_pipe()
    except OSError as error:
        raise stop(f"cannot write the output: {error.strerror or error}", ExitStatus.BAD_INPUT) from None
    except KeyboardInterrupt:
        raise stop("interrupted", ExitStatus.INTERRUPTED) from None


def with_flags(error: Exception) -> str:
    """Return the text of an error with flags for parameters: of a rank, whose text is others', only in the hint."""
    if not isinstance(error, RankFailed):
        return spell(str(error))
    return f"{error.text}; hint: {spell(error.hint)}" if error.hint else error.text


def require_one(entries: Iterable[Any]) -> None:
    """Exit with the answer no where nothing that was named applies, or one failed, whose reasons were printed."""
    rows = [*entries]
    if not any(row.applicable for row in rows) or any(row.failed for row in rows):
        raise typer.Exit(ExitStatus.ANSWER_IS_NO)


def stop(message: str, status: ExitStatus) -> typer.Exit:
    """Return what ends a command, after a message on stderr."""
    print(f"pipesched: {message}", file=sys.stderr)
    return typer.Exit(status)


def quiet_pipe() -> None:
    """Discard all further output, what Python flushes at exit too: the reader of stdout has gone (`| head`)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def stop_on_interrupt() -> Iterator[Event]:
    """Yield an event that Ctrl-C sets inside the block; a second Ctrl-C raises KeyboardInterrupt."""
    stop = Event()

    def ask(_signal: int, _frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def leave_at_signals(losses: Sequence[float]) -> list[int]:
    """Let SIGTERM end the program, and Ctrl-C the ranks, but without `losses` the program; return what they add to."""
    from multiprocessing import active_children

    asked = list[int]()

    def end(number: int, _frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)
        asked.append(number)
        for process in (processes := active_children()):
            process.kill()
        if number == signal.SIGINT and losses:
            return
        if number == signal.SIGINT:
            print("pipesched: interrupted before the end of the first step", file=sys.stderr, flush=True)
        if not processes:  # PyTorch's import might lose an exception
            os._exit(128 + number)
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):  # under torchrun this process is a rank
        signal.signal(number, signal.SIG_DFL if "RANK" in os.environ else end)
    return asked

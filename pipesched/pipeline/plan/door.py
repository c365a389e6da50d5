"""The door for code of users (own code): what packages declare, where a function stands, what it does wrong (`blamed`).

Entry points are looked at only where a name is unknown: that takes longer than to start.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from functools import cache
from inspect import unwrap
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

from pipesched.checks import cut, shown
from pipesched.core.clock import TimeIsUp
from pipesched.errors import ConfigError, NoSchedule, NotApplicable, OwnCodeFailed

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

MOST_LETTERS = 300  # of what own code says in a message


@cache
def installed(group: str) -> Mapping[str, EntryPoint]:
    """Return what installed packages declare in a group, by name."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=group)}


def package_of(entry: EntryPoint) -> str:
    """Return the package that an entry point is of, with its version."""
    return "a package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def loaded(entry: EntryPoint) -> Any:
    """Return what an entry point names. Raises ConfigError, which names the package."""
    with blamed(f"{entry.name} of {package_of(entry)}", entry.value):
        return entry.load()


def require_free(name: str, taken: Collection[str], what: str) -> str:
    """Return a name that is free, of letters that a command line takes. Raises ConfigError."""
    if not name or not all(letter.isalnum() or letter in "-_" for letter in name) or name != name.lower():
        how = "`pipesched.family(name, function)` gives one"
        raise ConfigError(f"must be a name of small letters, digits, - and _, not {shown(name)}; {how}", "name")
    if name in taken:
        raise ConfigError(f"{name!r} is taken: pipesched has {what} of that name; choose another: my-{name}", "name")
    return name


def place_of(function: Callable[..., Any]) -> tuple[str, int]:
    """Return the file and the line of a function; of another object those of its class, as far as they are known."""
    inner = unwrap(getattr(function, "func", function))
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return (type(inner).__module__, 0) if code is None else (code.co_filename, code.co_firstlineno)


def place(file: str, line: int) -> str:
    """Return a place as messages say it: below the current folder as seen from there; line 0 is none."""
    with suppress(ValueError, OSError):
        file = str(Path(file).relative_to(Path.cwd()))
    return f"{file}:{line}" if line else file


@contextmanager
def blamed(what: str, file: str, line: int = 0) -> Iterator[None]:
    """Turn what own code raises, inside the block, into one message: what it is, the file and the line.

    The line is the last one in that file, else `line`. What the code raises to say no stays as it is. What it prints
    goes to standard error: standard output may hold a document. Raises OwnCodeFailed.
    """
    try:  # sys.stdout is of the process: no two threads change it
        with redirect_stdout(sys.stderr) if current_thread() is main_thread() else nullcontext():
            yield
    except (OwnCodeFailed, NoSchedule, TimeIsUp):
        raise
    except (Exception, SystemExit) as error:  # own code does not end the program
        if type(error) is NotApplicable:  # it says no; any other ConfigError is its fault
            raise
        trace, at = error.__traceback__, line
        while trace is not None:
            at = trace.tb_lineno if trace.tb_frame.f_code.co_filename == file else at
            trace = trace.tb_next
        if isinstance(error, SyntaxError) and error.filename == file:
            at = error.lineno or at
        said = cut(error.msg if isinstance(error, SyntaxError) else str(error), MOST_LETTERS)
        kind = "" if isinstance(error, ConfigError) else f"{type(error).__name__}: "
        raise OwnCodeFailed(f"{place(file, at)}: {what}: {kind}{said}".rstrip(": ")) from error

"""The journal of a search: a line of JSON for each trial and each pruned layout, written at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.estimation.result import TrainingStep
from pipesched.results.trainers import Verdict
from pipesched.tuning.prune import PrunedPoints
from pipesched.tuning.space import Layout, Space, SpacePoint
from pipesched.tuning.trial import Trial
from pipesched.version import __version__

FORMAT, VERSION = "pipesched.journal", 2
TRIAL_KEYS = ("memory", "spare", "bubble", "layout", "reason", "is_short")  # and the verdicts of trainers


class Journal:
    """Writes what becomes of points to a file, and knows the trials that it held before."""

    def __init__(self, file: IO[str] | None, known: dict[str, Trial], pruned: set[str]) -> None:
        self.known = known
        self._file, self._pruned = file, pruned

    def note(self, one: Trial | PrunedPoints) -> None:
        """Write a trial, or points that were pruned, unless that stands there already."""
        if self._file is None:
            return
        if isinstance(one, Trial):
            if one.point.key not in self.known:
                self._write(_trial_entry(one))
            return
        entry = {"point": one.layout.values, "algorithms": [*one.algorithms], "dropped": one.reason, "why": one.text}
        key = _key(entry)
        if key not in self._pruned:
            self._pruned.add(key)
            self._write(entry)

    def _write(self, entry: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()


@contextmanager
def open_journal(path: str | Path | None, space: Space) -> Iterator[Journal]:
    """Yield the journal of a file, which goes on if it is there; without a file one that keeps nothing.

    A last line that was cut off is dropped. Raises ConfigError about `resume` for a file that cannot be read or
    written, is no journal, or is one of another space or version.
    """
    if path is None:
        yield Journal(None, {}, set())
        return
    known, pruned, whole = _read(Path(path), space)
    try:
        with Path(path).open("r+" if whole else "w", encoding="utf-8", newline="\n") as file:
            file.seek(whole)
            file.truncate()
            if not whole:
                file.write(json.dumps(_head(space)) + "\n")
                file.flush()
            yield Journal(file, known, pruned)
    except OSError as error:
        raise ConfigError(f"cannot write {shown(str(path))}: {error.strerror}", "resume") from None


def _head(space: Space) -> dict[str, Any]:
    """Return the first line."""
    return {
        "format": FORMAT, "version": VERSION, "pipesched": __version__, "space": space.digest,
        "points": space.points,
    }  # fmt: skip


def _read(path: Path, space: Space) -> tuple[dict[str, Trial], set[str], int]:
    """Return the trials of a journal, what was pruned, and the bytes of its whole lines; nothing without a file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}, set(), 0
    except OSError as error:
        raise ConfigError(f"cannot read {shown(str(path))}: {error.strerror}", "resume") from None
    whole = data.rfind(b"\n") + 1
    if not whole and not data:
        return {}, set(), 0
    lines = data[:whole].splitlines()
    _require_head(_entry(lines[0] if lines else data, path, 1), path, space)
    known: dict[str, Trial] = {}
    pruned: set[str] = set()
    for number, line in enumerate(lines[1:], 2):
        entry = _entry(line, path, number)
        if "dropped" in entry:
            pruned.add(_key(entry))
            continue
        try:
            trial = _trial(entry)
        except (KeyError, TypeError, ValueError):
            raise ConfigError(f"{path}:{number}: is no trial of a journal", "resume") from None
        known[trial.point.key] = trial
    return known, pruned, whole


def _entry(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    if not isinstance(entry, dict):
        raise ConfigError(f"{path}:{number}: is no line of a journal of trials", "resume")
    return entry


def _require_head(entry: dict[str, Any], path: Path, space: Space) -> None:
    """Raise ConfigError for a journal that this search cannot go on with."""
    wanted = _head(space)
    for key, what in (("format", "no journal of trials"), ("version", "a journal of another version")):
        if entry.get(key) != wanted[key]:
            raise ConfigError(
                f"{path} is {what}: its `{key}` is {shown(entry.get(key))}, not {wanted[key]!r}", "resume"
            )
    if entry.get("pipesched") != wanted["pipesched"]:
        theirs = shown(entry.get("pipesched"))
        raise ConfigError(f"{path} was written by pipesched {theirs}; this is {wanted['pipesched']}", "resume")
    if entry.get("space") != wanted["space"]:
        raise ConfigError(
            f"{path} is of another space: of {shown(entry.get('points'))} points with other candidates, model or"
            f" hardware; this one has {space.points}",
            "resume",
        )


def _trial_entry(trial: Trial) -> dict[str, Any]:
    return {
        "point": trial.point.layout.values,
        "algorithm": trial.point.algorithm,
        "step": None if trial.step is None else [*trial.step],
        **{key: getattr(trial, key) for key in TRIAL_KEYS},
        "verdicts": [[*verdict] for verdict in trial.verdicts],
    }


def _trial(entry: dict[str, Any]) -> Trial:
    point = SpacePoint(Layout(*entry["point"]), entry["algorithm"])
    step = None if entry["step"] is None else TrainingStep(*entry["step"])
    said = tuple(Verdict(*verdict) for verdict in entry["verdicts"])
    return Trial(point, step, **{key: entry[key] for key in TRIAL_KEYS}, verdicts=said)


def _key(entry: dict[str, Any]) -> str:
    return f"{entry.get('point')}{entry.get('algorithms')}{entry.get('dropped')}"

"""`write` a result to a file, `read` it back: a JSON document by `read_document`, a CSV without costs by `read_order`.

Last stands another kind of file: `lengths_in` reads the lengths of documents.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from errno import EISDIR, ENOENT
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from pipesched.checks import require_flag, require_label, require_name, shown
from pipesched.display import Displayable
from pipesched.errors import ConfigError
from pipesched.file_formats import registry
from pipesched.pipeline.plan.door import blamed, place_of
from pipesched.pipeline.plan.plan import Plan, with_parts
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem, require_problem
from pipesched.results.comparison import Comparison, Frontier, Sweep
from pipesched.results.kinds import RESULTS, kind_of
from pipesched.results.outcome import Outcome
from pipesched.results.run import run
from pipesched.schedulers.registry import is_known
from pipesched.text.yaml_reader import decode, read_text

if TYPE_CHECKING:
    from pipesched.config.load import ImportedProblem
    from pipesched.render.view import View
MOST_BYTES = 200_000_000
Timing = Callable[[Plan, Placement, str], "ImportedProblem"]  # the problem that gives a foreign plan its costs


class Text(NamedTuple):
    """The content of a file, and the name that messages give it."""

    content: str
    name: str


class ReadSchedule(NamedTuple):
    """A schedule of a file, not checked yet; the text of a document, or of a CSV the problem before it was fused."""

    outcome: Outcome
    text: str | None = None
    given: Problem | None = None


def read(
    path_or_file: str | Path | TextIO, *, problem: Problem | None = None
) -> Outcome | Comparison | Sweep | Frontier | Displayable:
    """Read what `write` wrote, or PyTorch's schedule CSV; the content tells the format.

    Args:
        path_or_file: The name of a file, or an open one.
        problem: The costs of a CSV, which has none; its sizes must agree with the file, or its stages be a multiple.
            Default: forward 5, backward 10 and p2p 0. Other formats hold their own problem.

    Returns:
        An Outcome for a schedule; a Comparison, Sweep, Frontier or Robustness for a document of rows: its rows with
        their metrics, without schedules.

    Raises:
        ConfigError: For a file that cannot be read, or holds something else.
        InvalidSchedule: For a CSV that PyTorch could not run. What a document claims is for `check` to judge.
    """
    return _result_of(_text_of(path_or_file, "path_or_file"), problem)


def read_given(value: Any, problem: Problem | None = None, key: str = "schedule", entry: int | None = None) -> Any:
    """Return the result in a file, the schedule of an algorithm, or `value` (pipesched.display.from_file)."""
    if callable(value) or (problem is not None and is_known(value, loads=True)):
        if problem is None:
            raise ConfigError(f"is missing: what {shown(value)} schedules", "problem")
        return run(problem, value)
    if not isinstance(value, (str, Path)):
        if problem is not None and entry is None:
            raise ConfigError("gives a CSV its costs, and none is named", "problem")
        return value
    text = _text_of(value, key)
    if is_csv(text) and problem is None:
        raise ConfigError(f"{text.name} is a CSV, which holds no costs: give a Problem", "problem")
    return _result_of(text, problem if entry is None or is_csv(text) else None)


def _result_of(text: Text, problem: Problem | None) -> Outcome | Comparison | Sweep | Frontier | Displayable:
    if not is_csv(text):
        if problem is not None:
            raise ConfigError(f"{text.name} is a document, which holds its own problem; costs go with a CSV", "problem")
        return read_document(text)
    from pipesched.config.load import imported_problem, timed_by

    if problem is None:
        return read_order(text, lambda plan, placement, name: imported_problem(plan, placement, None, {}, name)).outcome
    costs = require_problem(problem)
    return read_order(text, lambda plan, placement, name: timed_by(plan, placement, costs, name)).outcome


def read_order(text: Text, timing: Timing) -> ReadSchedule:
    """Return the schedule in a CSV, to which `timing` gives its costs. Raises ConfigError, InvalidSchedule."""
    from pipesched.file_formats.pytorch_csv import planned

    plan, placement = order_of(text)
    fitted, given = timing(plan, placement, text.name)
    stem = Path(text.name).stem
    named = with_parts(planned(fitted, plan), name=stem if stem.isprintable() else "csv")
    return ReadSchedule(Outcome(named.name, schedule_plan(fitted, named)), given=given)


def read_document(text: Text) -> Outcome | Comparison | Sweep | Frontier | Displayable:
    """Return the result in a JSON document. Raises ConfigError."""
    from pipesched.documents.json_text import VERSION, parse_document, require_version
    from pipesched.documents.schedule import outcome_of

    content = parse_document(*text)
    form = str(content.get("format"))
    kind = "comparison" if form == "pipesched.pareto" else form.removeprefix("pipesched.")
    known = RESULTS.get(kind) if form.startswith("pipesched.") else None
    if known is None or not known.reader:
        return outcome_of(content, text.name)
    try:
        require_version(content, form, f"document of version {VERSION}")
        result: Displayable = known.load("reader")(content)
    except ConfigError as error:
        raise ConfigError(f"{text.name}: {error}") from None
    return result


def order_of(text: Text) -> tuple[Plan, Placement]:
    """Return the plan in a text without costs, and its placement. Raises as `read_csv` does."""
    from pipesched.file_formats.pytorch_csv import csv_text, parse

    form = registry.own_format(text.name)
    if form is None or form.reader is None:
        return parse(*text, may_wait=True)
    with blamed(f"{form.name} of {text.name}", *place_of(form.reader)):
        rows = [row.split() if isinstance(row, str) else [*row] for row in form.reader(text.content)]
    return parse(csv_text(rows), text.name, may_wait=True)


def is_csv(text: Text) -> bool:
    """Return whether a text holds an order without costs: by its first letters, or a suffix .csv or of a user."""
    first = text.content.lstrip(' \t\r\n,"')[:1]
    if (first.isdigit() or first == "(") or (first != "{" and text.name.lower().endswith(".csv")):
        return True
    form = registry.own_format(text.name)
    return form is not None and form.reads


def read_file(path: str | Path) -> Text:
    """Return the text of a file. Raises ConfigError for one that cannot be read, is no text, or is too large."""
    return Text(read_text(Path(path), MOST_BYTES), str(path))


def _text_of(file: object, key: str) -> Text:
    if isinstance(file, (str, Path)):
        try:
            return read_file(file)
        except ConfigError as error:
            raise error.about(key) from None
    reader = getattr(file, "read", None)
    if reader is None:
        raise ConfigError(f"must be the name of a file, or an open file, not {shown(file)}", key)
    content, name = reader(), str(getattr(file, "name", "<file>"))
    return Text(decode(content, name, MOST_BYTES) if isinstance(content, bytes) else str(content), name)


def write(
    result: Outcome | Schedule | Comparison | Sweep | Frontier | Displayable | str | Path | Callable[..., Any],
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002  the word that people use
    force: bool = False,
    problem: Problem | None = None,
) -> Path:
    """Write a result to a file, whole or not at all.

    Args:
        result: An Outcome or Schedule, a Comparison, a Sweep, a Frontier or a Robustness, or the name of a file with
            one.
        path: The file. An existing one is replaced only by `force`.
        format: A name of `formats()`; default: by the suffix of the file.
        force: Whether to replace an existing file.
        problem: The costs, where `result` names a CSV, and what an algorithm, its name or its function, schedules.

    Returns:
        The path.

    Raises:
        ConfigError: For a format that cannot hold the result, an existing file, or one that cannot be written.
        NotApplicable: For a schedule that the format cannot express.
    """
    kind, content = kind_of(read_given(result, problem, "result"))
    if not kind:
        raise ConfigError(f"must be an Outcome, a Comparison, a Sweep or a Frontier, not {shown(content)}", "result")
    if not isinstance(path, (str, Path)):
        raise ConfigError(f"must be the name of a file, not {shown(path)}", "path")
    form = named_format(format, kind) if format is not None else registry.format_for(str(path), kind)
    refuse_existing(Path(path), require_flag(force, "force"))
    write_file(Path(path), [content_of(content, form, kind)], force)
    return Path(path)


def named_format(name: str, kind: str) -> registry.Format:
    """Return the format of that name (or suffix), if it can hold a `kind`. Raises ConfigError."""
    spelled = require_label(name, "format").lower().removeprefix(".")
    if spelled not in {*registry.FORMATS, *(form.suffix[1:] for form in registry.FORMATS.values())}:
        registry.load_formats()
    by_suffix = {form.suffix[1:]: form.name for form in reversed(registry.FORMATS.values())}  # of one suffix the first
    known = by_suffix.get(spelled, spelled)
    require_name(registry.FORMATS, known, "format", "format")
    if kind not in registry.FORMATS[known].holds:
        raise ConfigError(f"{known} cannot hold a {kind}; {', '.join(registry.formats_that_hold(kind))} can", "format")
    return registry.FORMATS[known]


def content_of(result: Any, form: registry.Format, kind: str, view: View | None = None) -> registry.Content:
    """Return the content of a file that holds a result of that kind; `view` is for figures."""
    from pipesched.render.view import View

    if form.name in registry.FIGURES:
        from pipesched.render.figure.draw import require_matplotlib

        require_matplotlib()
    return form.writers[kind](result, view or View())


def refuse_existing(path: Path, force: bool) -> None:
    """Raise ConfigError for a file that exists and may not be replaced, and for one that has no place."""
    if os.path.lexists(path) and not force:
        raise ConfigError(f"{path} exists; `force` overwrites it", "path")
    for wrong, number in ((path.is_dir(), EISDIR), (not path.absolute().parent.is_dir(), ENOENT)):
        if wrong:
            raise ConfigError(f"cannot write {str(path)!r}: {os.strerror(number)}", "path")


def write_file(path: Path, parts: Iterable[registry.Content], force: bool) -> None:
    """Write a file whole or not at all; replace an existing one only by `force`. Raises ConfigError."""
    temporary: str | None = None
    try:
        refuse_existing(path, force)
        target = path.resolve()  # a link stays one: what it points to is written
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.writelines(part.encode() if isinstance(part, str) else part for part in parts)
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)  # as any new file: temporary ones are private
        Path(temporary).replace(target)
        temporary = None
    except OSError as error:
        raise ConfigError(f"cannot write {str(path)!r}: {error.strerror}", "path") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


NPY = b"\x93NUMPY"  # what a file of one array begins with
WORD = re.compile(r"[^\s,]+")  # between blanks, commas and ends of lines
MOST_DIGITS = 18  # of a number that may be a length at all


def lengths_in(data: bytes, name: str) -> list[int]:
    """Return the lengths in a text, a JSON list or an array. Raises ConfigError for no whole numbers."""
    if data.startswith(NPY):
        import numpy as np

        try:
            array: Any = np.load(BytesIO(data), allow_pickle=False)  # which refuses Python objects
        except (ValueError, EOFError, SyntaxError) as error:
            raise ConfigError(f"{name} is no array of whole numbers: {error}") from None
        if array.ndim != 1 or array.dtype.kind not in "iu":
            found = f"an array of {array.dtype} in {array.ndim}"
            raise ConfigError(f"{name} must hold whole numbers in one dimension, not {found}")
        lengths = [_length(value, f"{name}: entry {entry}") for entry, value in enumerate(array.tolist())]
    elif (text := decode(data, name, MOST_BYTES)).lstrip().startswith("["):
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{name} is no JSON list: {error}") from None
        lengths = [_length(value, f"{name}: entry {entry}") for entry, value in enumerate(values)]
    else:
        lengths = []
        for number, line in enumerate(text.splitlines(), 1):
            for word in WORD.findall(line):
                is_whole = word.isascii() and word.isdecimal() and len(word) <= MOST_DIGITS
                lengths.append(_length(int(word) if is_whole else word, f"{name}:{number}"))
    if not lengths:
        raise ConfigError(f"{name} holds no lengths of documents")
    return lengths


def _length(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{where}: must be a whole number of at least 1, not {shown(value)}")
    return value

"""File formats of users: written and read by their suffix, as ours are, and what they do wrong is one message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched import ConfigError, InvalidSchedule, make_problem
from pipesched.errors import OwnCodeFailed
from pipesched.file_formats.registry import FORMATS

HERE = Path(__file__).name
PROBLEM = make_problem(devices=3, microbatches=4, forward=2, backward=3)


@pytest.fixture(autouse=True)
def _formats(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test leaves the formats as they were."""
    before = dict(FORMATS)
    yield
    FORMATS.clear()
    FORMATS.update(before)


def dump(outcome: pipesched.Outcome) -> str:
    plan = outcome.schedule.plan
    return "".join(" ".join(map(str, plan.slots(device))) + "\n" for device in range(outcome.problem.devices))


def load(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_it_is_written_and_read(tmp_path: Path) -> None:
    """By its suffix and by its name; its costs are those of a problem, as for a CSV, and `compare` takes the file."""
    made = pipesched.file_format("lines", ".lines", dump, load)
    assert (made, made.holds, made.reads) == (pipesched.formats()[-1], ("schedule",), True)
    outcome = pipesched.run(PROBLEM, "1f1b")
    file = pipesched.write(outcome, tmp_path / "plan.lines")
    assert file.read_text(encoding="utf-8") == dump(outcome)
    back = pipesched.read(file, problem=PROBLEM)
    assert isinstance(back, pipesched.Outcome)
    assert (back.algorithm, back.metrics) == ("plan", outcome.metrics)
    assert pipesched.compare(PROBLEM, plans=[file])[0].outcome is not None
    assert pipesched.explain(file, problem=PROBLEM).schedule.makespan == outcome.schedule.makespan
    pipesched.write(outcome, tmp_path / "other", format="lines")
    with pytest.raises(ConfigError, match="lines cannot hold a sweep"):
        pipesched.write(pipesched.sweep(None, "microbatches", [4], "1f1b"), tmp_path / "x", format="lines")


def fails(_: Any) -> Any:
    return 1 // 0


def returns_a_number(_: Any) -> Any:
    return 5


def test_what_it_does_wrong(tmp_path: Path) -> None:
    """What its functions raise, or return wrongly, names the format, the file and the line; nothing is written."""
    outcome, file = pipesched.run(PROBLEM, "1f1b"), tmp_path / "a.bad"
    for function, said in (
        (fails, r":\d+: bad: ZeroDivisionError"),
        (returns_a_number, "must return text or bytes, not 5"),
    ):
        FORMATS.pop("bad", None)
        pipesched.file_format("bad", ".bad", function, function)
        with pytest.raises(OwnCodeFailed, match=f"{HERE}.*{said}"):
            pipesched.write(outcome, file)
        assert not file.exists()
    file.write_text("anything", encoding="utf-8")
    with pytest.raises(OwnCodeFailed, match=f"{HERE}.*bad of .*a.bad: TypeError"):
        pipesched.read(file, problem=PROBLEM)
    pipesched.file_format("lines", ".lines", reader=load)
    (tmp_path / "b.lines").write_text("0F0 hello\n", encoding="utf-8")
    with pytest.raises((ConfigError, InvalidSchedule), match="hello"):
        pipesched.read(tmp_path / "b.lines", problem=PROBLEM)

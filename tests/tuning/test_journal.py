"""The journal of a search: a line for what becomes of each point, from which a search goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pipesched
from pipesched.tuning.prune import BOUND, PrunedPoints
from pipesched.tuning.trial import Trial, open_journal
from tests.tuning.made import layout, trial
from tests.tuning.spaces import ALGORITHMS, SPACE
from tests.tuning.test_space import space

FITS = trial(layout(2, 4, recompute=3), "zb-h1", 10_412.123456789, 61.2)
OTHERS = (
    Trial(FITS.point._replace(algorithm="hanayo"), reason="hanayo needs ä\nmore"),
    Trial(FITS.point._replace(algorithm="list"), reason="needs a budget", is_short=True),
    trial(layout(1, 4), "1f1b", 1 / 3, 90.0),
)
PRUNED = PrunedPoints(layout(8, 1), ("1f1b", "zb-h1"), BOUND, "at most 3.0 tokens/s/GPU", most=3.0)


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    """Trials that fit, that do not, that have no step: to the last bit. A line is there as soon as it is written."""
    path, mine = tmp_path / "journal", space()
    written: tuple[Trial | PrunedPoints, ...] = (FITS, *OTHERS, PRUNED)
    with open_journal(path, mine) as journal:
        assert journal.known == {}
        for number, one in enumerate(written, 2):
            journal.note(one)
            assert len(path.read_text("utf-8").splitlines()) == number
    with open_journal(path, mine) as journal:
        assert journal.known == {one.point.key: one for one in (FITS, *OTHERS)}


def test_nothing_is_written_twice(tmp_path: Path) -> None:
    """Neither a trial that was known, nor points that were pruned before; what is new is."""
    path, mine = tmp_path / "journal", space()
    with open_journal(path, mine) as journal:
        journal.note(FITS)
        journal.note(PRUNED)
        journal.note(PRUNED)
    before = path.read_bytes()
    with open_journal(path, mine) as journal:
        journal.note(FITS)
        journal.note(PRUNED)
        assert path.read_bytes() == before
        journal.note(OTHERS[2])
        journal.note(PRUNED._replace(algorithms=("1f1b",)))
    assert path.read_bytes().startswith(before)
    assert len(path.read_bytes().splitlines()) == 5


def test_a_line_that_was_cut_off_is_written_anew(tmp_path: Path) -> None:
    """At each byte behind the head; what follows it stands on lines of its own."""
    path, mine = tmp_path / "journal", space()
    with open_journal(path, mine) as journal:
        journal.note(FITS)
    whole = path.read_bytes()
    head = whole.index(b"\n") + 1
    for cut in range(head, len(whole)):
        path.write_bytes(whole[:cut])
        with open_journal(path, mine) as journal:
            assert journal.known == {}
            journal.note(FITS)
        assert path.read_bytes() == whole


def test_an_empty_file_and_none(tmp_path: Path) -> None:
    """An empty file is a journal that begins; without a file nothing is kept."""
    (tmp_path / "empty").touch()
    with open_journal(tmp_path / "empty", space()) as journal:
        journal.note(FITS)
    assert len((tmp_path / "empty").read_bytes().splitlines()) == 2
    with open_journal(None, space()) as journal:
        journal.note(FITS)
        assert journal.known == {}


@pytest.mark.slow
def test_the_journal_of_a_search_tells_every_point(tmp_path: Path) -> None:
    """Every point of the space is on one line, simulated or pruned with a reason, as many as the answer counts."""
    path = tmp_path / "journal"
    tuning = pipesched.tune(None, ALGORITHMS, resume=path, **SPACE)
    head, *lines = map(json.loads, path.read_text("utf-8").splitlines())
    assert (head["format"], head["version"], head["points"]) == ("pipesched.journal", 3, tuning.space)
    trials = [line for line in lines if "algorithm" in line]
    pruned = [line for line in lines if "dropped" in line]
    assert len(trials) + len(pruned) == len(lines)
    points = [(*line["point"], line["algorithm"]) for line in trials]
    points += [(*line["point"], name) for line in pruned for name in line["algorithms"]]
    assert len(points) == len(set(points)) == tuning.space
    assert sum(line["step"] is not None for line in trials) == tuning.simulated
    for reason in ("bound", "dominance"):
        assert sum(len(line["algorithms"]) for line in pruned if line["dropped"] == reason) == tuning.pruned[reason]
    assert all(line["why"] for line in pruned)
    assert all(line["reason"] for line in trials if line["step"] is None)

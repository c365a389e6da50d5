"""A search as a whole: the same rows whatever runs it, limits, its journal, and bad input."""

from __future__ import annotations

import json
import math
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml

import pipesched
from pipesched import ConfigError, Progress, Trial, Tuning
from pipesched.tuning import search, trial
from pipesched.tuning.prune import BOUND, PrunedPoints
from pipesched.tuning.trial import open_journal, simulate
from tests.examples import at_night_but
from tests.executors.work import workers_left
from tests.fake_clock import LATER, FakeClock
from tests.tuning.made import layout, trial as made_trial
from tests.tuning.spaces import ALGORITHMS, EXPERTS, GPU, LLAMA, SPACE, Config, fastest, held
from tests.tuning.test_space import space

pytestmark = pytest.mark.slow
LARGE: Config = {
    "model": "llama-3-70b",
    "hardware": "h100-sxm",
    "parallel": {"gpus": 64},
    "batch": {"sequence": 8192, "global": 128, "micro": "auto"},
    "training": {"recompute": "auto"},
}


def tuned(**more: Any) -> Tuning:
    """The search of the small space."""
    return pipesched.tune(None, ALGORITHMS, **{**SPACE, **more})


def told(tuning: Tuning) -> list[Any]:
    """All that a search tells, but for how long it took."""
    rows = [tuning.rows, tuning.pareto, tuning.parts, tuning.near_misses, tuning.doubts, tuning.nearest, tuning.config]
    return [*rows, tuning.space, tuning.simulated, tuning.pruned, tuning.left, tuning.legal]


@pytest.fixture(scope="module")
def alone() -> Tuning:
    """The answer of this process."""
    tuning = tuned()
    assert len(tuning.rows) >= 5
    assert tuning.simulated >= 16
    assert tuning.notes == ()
    return tuning


@pytest.mark.parametrize("spec", at_night_but(("local:2",), ("local:1", "local:2", "dask")))
def test_rows_do_not_depend_on_the_executor(
    alone: Tuning, spec: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Rows in their order, counts, all that rests on them, and the journal: of a process, of two, of a Dask cluster."""
    named = request.getfixturevalue("dask") if spec == "dask" else spec
    tuning = tuned(executor=named, resume=tmp_path / "journal")
    assert told(tuning) == told(alone)
    assert not workers_left()
    tells_every_point(tmp_path / "journal", tuning)


def tells_every_point(path: Path, tuning: Tuning) -> None:
    """Every point of the space is on one line, simulated or pruned with a reason, as many as the answer counts."""
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


class Counted:
    """Counts simulations, and ends them with Ctrl-C after so many."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: float = math.inf) -> None:
        self.points: list[str] = []
        self._most, self._simulate = most, simulate
        monkeypatch.setattr(search, "simulate", self)

    def __call__(self, task: Any) -> Any:
        """Simulate, and note the point."""
        if len(self.points) >= self._most:
            raise KeyboardInterrupt
        self.points.append(task.point.key)
        return self._simulate(task)


def trials_in(path: Path) -> int:
    """The whole lines of a journal that are trials."""
    text = path.read_text("utf-8") if path.exists() else ""
    return sum('"algorithm":' in line for line in text.splitlines(keepends=True) if line.endswith("\n"))


@pytest.mark.nightly
def test_a_journal_that_was_cut_off_anywhere_goes_on(
    alone: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the head, between lines, and in the midst of one: it is as long as the first one in the end."""
    journal = tmp_path / "journal.jsonl"
    assert told(tuned(resume=journal)) == told(alone)
    whole = journal.read_bytes()
    ends = [number + 1 for number, byte in enumerate(whole) if byte == ord("\n")]
    counted = Counted(monkeypatch)
    for cut in (0, ends[0], ends[len(ends) // 2], ends[-4] + 9, ends[-2] + 1, len(whole) - 1, len(whole)):
        journal.write_bytes(whole[:cut])
        known = trials_in(journal)
        counted.points.clear()
        assert told(tuned(resume=journal)) == told(alone), cut
        assert len(counted.points) == alone.simulated - known, cut
        assert sorted(journal.read_bytes().splitlines()) == sorted(whole.splitlines()), cut


def test_ctrl_c_keeps_the_best_so_far_and_its_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupted search returns what it has, and the next one goes on."""
    counted = Counted(monkeypatch, most=7)
    tuning = tuned(resume=tmp_path / "j")
    assert (tuning.simulated, bool(tuning.rows), tuning.left > 0) == (7, True, True)
    assert trials_in(tmp_path / "j") == 7
    assert len(counted.points) == 7


LIMITS = [(LARGE, 50, None), (LARGE, 50, "local:2"), (SPACE, 3000, None), (SPACE, 70, "local:2")]


@pytest.mark.parametrize("case", at_night_but(LIMITS[::2], LIMITS), ids=range(len(LIMITS)))
def test_a_time_limit_holds(
    case: tuple[Config, int, str | None], fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While 400,000 points are sifted, and while a few are simulated: it returns what it has, and all are counted."""
    config, limit, spec = case
    for module in (trial,) if spec is None else ():  # workers have the time of day
        monkeypatch.setattr(module, "time", fake_clock)
    tuning = pipesched.tune(None, ALGORITHMS if config is SPACE else None, executor=spec, time_limit=limit, **config)
    assert fake_clock.now <= limit + LATER
    assert tuning.left > 0
    assert not tuning.is_complete
    assert tuning.space == tuning.simulated + sum(tuning.pruned.values()) + tuning.left
    assert tuning.best in (None, *tuning.rows[:1])
    assert tuning.rows or limit < 3000
    assert not workers_left()


@pytest.mark.parametrize("spec", at_night_but((None,), (None, "local:2")))
def test_a_stop_event_ends_it_with_the_best_so_far(spec: str | None) -> None:
    """It is set in the midst of the search; what is known then is the answer, and a note says what nobody judged."""
    stop, seen = Event(), []

    def listener(progress: Progress) -> None:
        seen.append(progress)
        if progress.simulated >= 5:
            stop.set()

    tuning = tuned(stop=stop, listener=listener, executor=spec)
    assert 5 <= tuning.simulated <= 5 + search.AHEAD
    assert tuning.left > 0
    assert tuning.config
    assert [one.simulated for one in seen] == sorted(one.simulated for one in seen)
    assert seen[-1].best is not None
    assert seen[-1].best.point == fastest(tuning).point
    missing = sum(row.trust is None for row in tuning.rows)
    assert missing
    assert [f" how sure {missing} of {len(tuning.rows)} rows are" in note for note in tuning.notes] == [True]


def test_nothing_fits() -> None:
    """No rows: what misses its memory by least comes first, with changes that fit, which `estimate` confirms."""
    tuning = tuned(hardware={**GPU, "memory": 2})
    assert (tuning.rows, tuning.pareto, tuning.config, tuning.left) == ((), (), "", 0)
    over = [miss.over for miss in tuning.nearest]
    assert over
    assert over == sorted(over)
    assert over[0] > 0
    assert tuning.nearest[0].help
    assert tuning.space == tuning.simulated + sum(tuning.pruned.values())
    miss = tuning.nearest[0]
    text, _, rate = tuning.nearest[0].help[0].rpartition(": ")
    changed: Config = {**SPACE, "hardware": {**GPU, "memory": 2}, "parallel": {"gpus": 8, **miss.layout.parallel},
                       "batch": {**SPACE["batch"], "micro": miss.layout.micro},
                       "training": {"recompute": miss.layout.recompute_value}}  # fmt: skip
    for key, value in (part.split(": ", 1) for part in text.split(" and ")):
        section, _, name = key.partition(".")
        changed[section] = {**changed[section], name: yaml.safe_load(value)}
    assert not pipesched.estimate(None, miss.algorithm, **{**changed, "hardware": {**GPU, "memory": 0.8}}).fits
    found = pipesched.estimate(None, miss.algorithm, **changed)
    assert found.fits
    assert f"{found.step.tokens_per_second_per_gpu:,.1f} tokens/s/GPU" == rate


def test_hopeless() -> None:
    """Where no change is enough, there is nothing to suggest, and it is said by how much memory is missed."""
    tuning = pipesched.tune(None, ["1f1b"], model="llama-3.1-405b", hardware="h100-sxm",
                            parallel={"gpus": 2, "pipeline": 2}, batch={"sequence": 8192, "global": 8})  # fmt: skip
    assert not tuning.rows
    assert tuning.nearest[0].over > 1000
    assert tuning.nearest[0].help == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello\n", "is no line of a journal"),
        ('{"format": "pipesched.outcome", "version": 1}\n', "is no journal of trials"),
        ('{"format": "pipesched.journal", "version": 1}\n', "is a journal of another version"),
        ('{"format": "pipesched.journal", "version": 3, "pipesched": "0.0.1"}\n', "was written by pipesched '0.0.1'"),
        ("[1]\n", "is no line of a journal"),
    ],
)
def test_files_that_are_no_journal_of_this_search(tmp_path: Path, text: str, said: str) -> None:
    """They are named, and stay as they are."""
    path = tmp_path / "file"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=said) as caught:
        tuned(resume=path)
    assert caught.value.key == "resume"
    assert str(path) in str(caught.value)
    assert path.read_text("utf-8") == text


def test_journals_of_other_spaces_and_folders(tmp_path: Path) -> None:
    """Another algorithm and another cost make another space; a folder is no file."""
    small: Config = {
        **SPACE,
        "parallel": {"gpus": 8, "pipeline": 4, "tensor": 1, "chunks": 1, "context": 1, "expert": 1},
    }
    path = tmp_path / "journal"
    pipesched.tune(None, ["1f1b"], resume=path, **small)
    before = path.read_bytes()
    others: list[tuple[list[str], Config]] = [(["1f1b", "zb-h1"], small), (["1f1b"], {**small, "p2p": 1})]
    for names, config in others:
        with pytest.raises(ConfigError, match="is of another space") as caught:
            pipesched.tune(None, names, resume=path, **config)
        assert caught.value.key == "resume"
    assert path.read_bytes() == before
    lines = before.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b'{"point": [1], "algorithm": "1f1b"}\n', *lines[2:]]))
    with pytest.raises(ConfigError, match=r"journal:3: is no trial of a journal"):
        pipesched.tune(None, ["1f1b"], resume=path, **small)
    for folder in (tmp_path, tmp_path / "none" / "journal"):
        with pytest.raises(ConfigError, match=r"cannot (read|write)") as caught:
            pipesched.tune(None, ["1f1b"], resume=folder, **small)
        assert caught.value.key == "resume"


CONFIGS: dict[str, Config] = {
    "plain": {},
    "training": {"training": {"recompute": ["none", {"full": 1}, "selective"], "fused_loss": True, "gradients": "bf16",
                              "efficiency": {"network": 0.5}}},
    "costs": {"p2p": 0.25, "overlap": 3},
    "memory": {"budget": 3.5, "retain": 0.5},
    "experts": {"model": {**EXPERTS, "num_hidden_layers": 5}, "parallel": {**SPACE["parallel"], "expert": [2, 4]}},
    "name": {"name": "mine: a # title", "hardware": {"preset": "a100-80gb-sxm", "nic": 12}},
    "data": {"parallel": {**SPACE["parallel"], "data": 2, "sequence": False}},
}  # fmt: skip


@pytest.mark.parametrize("name", at_night_but(("plain",), CONFIGS))
def test_the_config_of_the_winner_gives_the_same_step(name: str, tmp_path: Path) -> None:
    """As text and as a file, with all that the config of the space said: same step, memory, stages and algorithm."""
    tuning = pipesched.tune(None, ["1f1b", "zb-h1", "interleaved", "zb-v", "list"], **{**SPACE, **CONFIGS[name]})
    best = tuning.best
    assert best is not None
    path = tmp_path / "best.yaml"
    path.write_text(tuning.config, "utf-8")
    for found in (pipesched.estimate(tuning.config), pipesched.estimate(path)):
        assert found.step == best.step
        assert (held(found), found.layout, found.fits) == (best.memory, best.layout, True)
        assert found.outcome.algorithm == best.point.algorithm
        assert tuning.name in ("", found.setup.name)


@pytest.mark.nightly
def test_the_config_of_a_winner_whose_model_is_a_file(tmp_path: Path) -> None:
    """Names of files hold for the config of the winner too, wherever that is written and read."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({"model_type": "llama", **LLAMA}), "utf-8")
    (tmp_path / "shares.yaml").write_text("network: 0.5\n", "utf-8")
    content = {
        **SPACE,
        "model": "model",
        "training": {"recompute": "none", "efficiency": "shares.yaml"},
        "costs": {"p2p": 0.25},
        "memory": {"retain": 0.125, "budget": [6, 6.5]},
    }
    space = tmp_path / "space.yaml"
    space.write_text(yaml.safe_dump(content), "utf-8")
    tuning = pipesched.tune(space, ["1f1b", "zb-h1", "interleaved", "list"], parallel={"pipeline": 2})
    assert tuning.best is not None
    (tmp_path / "other").mkdir()
    path = tmp_path / "other" / "best.yaml"
    path.write_text(tuning.config, "utf-8")
    for found in (pipesched.estimate(path), pipesched.estimate(tuning.config)):
        assert (found.step, found.layout) == (tuning.best.step, tuning.best.layout)


FITS = made_trial(layout(2, 4, recompute=3), "zb-h1", 10_412.123456789, 61.2)
OTHERS = (
    Trial(FITS.point._replace(algorithm="hanayo"), reason="hanayo needs ä\nmore"),
    Trial(FITS.point._replace(algorithm="list"), reason="needs a budget", is_short=True),
    made_trial(layout(1, 4), "1f1b", 1 / 3, 90.0),
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

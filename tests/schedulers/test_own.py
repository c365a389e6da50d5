"""A function of a user is a family wherever one is named, and what it does wrong is one message."""

from __future__ import annotations

import doctest
import sys
from collections.abc import Callable
from concurrent.futures import Executor
from inspect import Parameter, signature
from pathlib import Path
from pickle import dumps, loads
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given

import pipesched
from pipesched import ConfigError, NoSchedule, NotApplicable, Problem, make_problem
from pipesched.comparing.sweep import compared_points
from pipesched.config.estimate import estimate_of
from pipesched.errors import OwnCodeFailed
from pipesched.schedulers import own
from pipesched.schedulers.options import TAKEN
from pipesched.schedulers.registry import FAMILIES, OWN, family, is_known
from tests.strategies import problems

HERE = Path(__file__).name
PROBLEM = make_problem(devices=4, microbatches=8, forward=5, backward=10)


pytestmark = pytest.mark.usefixtures("no_own_families")


def as_1f1b(problem: Problem, *, depth: int = 0) -> list[list[str]]:
    """Run as 1F1B does, with some forwards more."""
    rows = []
    for device in range(problem.devices):
        ahead = min(problem.devices - device - 1 + depth, problem.microbatches)
        row = [f"{device}F{m}" for m in range(ahead)]
        for m in range(problem.microbatches):
            row += [f"{device}F{m + ahead}"] * (m + ahead < problem.microbatches) + [f"{device}B{m}"]
        rows.append(row)
    return rows


@given(problems())
def test_an_own_family_is_as_ours(problem: Problem) -> None:
    """The texts of 1F1B's order give 1F1B's schedule, or the same refusal, on any problem."""
    pipesched.family("mine", as_1f1b, placement="linear")
    try:
        ours = pipesched.run(problem, "1f1b")
    except (NotApplicable, NoSchedule):
        with pytest.raises((NotApplicable, NoSchedule)):
            pipesched.run(problem, "mine")
        return
    assert pipesched.run(problem, "MINE").metrics == ours.metrics


def test_every_function_takes_it() -> None:
    """By its name and as a function: run, compare, sweep, robust, explain, check, solve(hint=), write."""
    decorated = pipesched.family("mine", placement="linear")(as_1f1b)
    assert decorated is as_1f1b
    for one in ("mine", as_1f1b):
        outcome = pipesched.run(PROBLEM, one, depth=1)
        assert (outcome.algorithm, type(outcome.algorithm)) == ("mine", str)
        comparison = pipesched.compare(PROBLEM, [one, "1f1b"])
        assert [entry.algorithm for entry in comparison] == ["mine", "1f1b"]
        assert len({entry.outcome.schedule.makespan for entry in comparison if entry.outcome}) == 1
        assert [row.algorithm for row in pipesched.robustness(comparison, samples=2)] == ["mine", "1f1b"]
        assert pipesched.check(one, problem=PROBLEM) == []
        assert pipesched.explain(one, problem=PROBLEM).schedule.makespan == outcome.schedule.makespan
        assert pipesched.solve(PROBLEM, hint=one, time_limit=1).status == "optimal"
    swept = pipesched.sweep(None, "microbatches", [4, 6], as_1f1b)
    assert [point.comparison[0].outcome.problem.microbatches for point in swept] == [4, 6]  # type: ignore[union-attr]
    assert pipesched.algorithms()[-1].name == "mine"
    assert [entry.algorithm for entry in pipesched.compare(PROBLEM, "all")][-1] == "mine"


def test_files_of_one(tmp_path: Path) -> None:
    """`write` takes it beside a problem, and writes its schedule; without a problem it says what is missing."""
    file = pipesched.write(as_1f1b, tmp_path / "mine.json", problem=PROBLEM)
    read = pipesched.read(file)
    assert isinstance(read, pipesched.Outcome)
    assert (read.algorithm, read.schedule.makespan) == ("as-1f1b", 165)
    with pytest.raises(ConfigError, match=r"problem: is missing: what <function as_1f1b"):
        pipesched.explain(as_1f1b)


def test_its_facts_are_those_of_a_record() -> None:
    """Its placement is made, its options are its parameters, and it says where it stands and what it does."""
    pipesched.family("folded", placement="v", chunks=2, source="a paper")(returns_nothing)
    assert (family("folded").stages, family("folded").paper) == ("2P", "a paper")
    plain = family(as_1f1b)
    assert (plain.name, plain.placement, plain.options, plain.required) == ("as-1f1b", "any", ("depth",), ())
    assert plain.summary == "Run as 1F1B does, with some forwards more."
    assert plain.origin.endswith(f"{HERE}:{as_1f1b.__code__.co_firstlineno}")
    assert not OWN.keys() & {"as-1f1b"}  # a function that is handed over is not registered


def raises(problem: Problem) -> Any:
    return 1 // (problem.devices - 4)


def ends_the_program(problem: Problem) -> Any:
    raise SystemExit(0)


def returns_nothing(problem: Problem) -> Any:
    return None


def yields(problem: Problem) -> Any:
    yield from as_1f1b(problem)


async def waits(problem: Problem) -> Any:
    return as_1f1b(problem)


def calls_itself(problem: Problem) -> Any:
    return calls_itself(problem)


def plans_of_another(problem: Problem) -> Any:
    return pipesched.run(make_problem(devices=2, microbatches=2), "1f1b").schedule.plan


def says_twice(problem: Problem) -> Any:
    return [[*row, row[0]] for row in as_1f1b(problem)]


def leaves_some_out(problem: Problem) -> Any:
    return [row[:-1] for row in as_1f1b(problem)]


def says_nonsense(problem: Problem) -> Any:
    return [["hello"] for _ in range(problem.devices)]


def waits_for_itself(problem: Problem) -> Any:
    return [row[::-1] for row in as_1f1b(problem)]


def overlaps(problem: Problem) -> Any:
    return pipesched.run(problem, "1f1b-overlap").schedule.plan


def says_no(problem: Problem) -> Any:
    raise NotApplicable("the moon is full")


WRONG: list[tuple[Callable[[Problem], Any], int, str]] = [  # line behind the first, what the message says
    (raises, 1, "raises: ZeroDivisionError: "),
    (ends_the_program, 1, "ends-the-program: SystemExit: 0"),
    (returns_nothing, 0, "must return a Plan, or a list of operations for each device, and returns nothing"),
    (yields, 0, "must return a Plan, or a list of operations for each device, not <generator"),
    (waits, 0, "must return a Plan, or a list of operations for each device, not <coroutine"),
    (calls_itself, 1, "calls-itself: RecursionError: "),
    (plans_of_another, 0, "plans-of-another: .*2 devices"),
    (says_twice, 0, "says-twice: orders: .*stands twice in the plan"),
    (leaves_some_out, 0, "leaves-some-out: .*0B7"),
    (says_nonsense, 0, "says-nonsense: orders.*'hello'"),
    (waits_for_itself, 0, "waits-for-itself: .*deadlock"),
    (overlaps, 0, "overlaps: returns a plan that its facts exclude; say has_pairs=True"),
]


@pytest.mark.parametrize(("function", "line", "said"), WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_what_it_does_wrong_is_one_message(function: Callable[[Problem], Any], line: int, said: str) -> None:
    """With the file and the line: of what it raised, else of the function. In a comparison it is the row alone."""
    where = rf"{HERE}:{function.__code__.co_firstlineno + line}: "
    with pytest.raises(OwnCodeFailed, match=where + f".*{said}"):
        pipesched.run(PROBLEM, function)
    first, second = pipesched.compare(PROBLEM, [function, "1f1b"])
    assert first.outcome is None
    assert HERE in first.reason
    assert second.outcome is not None


def test_its_no_is_a_row() -> None:
    """NotApplicable is a row with its reason, and the message of a run."""
    assert pipesched.compare(PROBLEM, [says_no])[0].reason == "the moon is full"
    with pytest.raises(NotApplicable, match=r"^the moon is full$"):
        pipesched.run(PROBLEM, says_no)


def test_names() -> None:
    """A name of ours, and one of another function, are refused; a definition that runs again replaces the first."""
    with pytest.raises(ConfigError, match=r"'gpipe' is taken: .*choose another: my-gpipe"):
        pipesched.family("gpipe", as_1f1b)
    with pytest.raises(ConfigError, match=r"small letters.*<lambda>"):
        pipesched.run(PROBLEM, lambda _: [])
    pipesched.family("mine", as_1f1b)
    with pytest.raises(ConfigError, match=rf"'mine' is taken: .*{HERE}:\d+ has a family of that name"):
        pipesched.family("mine", says_no)
    pipesched.family("mine", as_1f1b, placement="linear")
    assert family("mine").placement == "linear"
    pipesched.family("cell", _another())
    before = family("cell").name
    pipesched.family("cell", _another())  # as a cell of a notebook does that runs again
    assert before == "cell" == family("cell").name
    assert before != family("cell").name  # so that nothing cached for one is taken for the other
    for wrong, said in (((5,), "name: must be one line of text"), (("other", 5), "function: must be a function")):
        with pytest.raises(ConfigError, match=said):
            pipesched.family(*wrong)
    with pytest.raises(ConfigError, match="has a parameter order, an option that every family has"):
        pipesched.family("other", lambda problem, order: problem or order)
    with pytest.raises(ConfigError, match="has a parameter plans, a name that is taken; choose another"):
        pipesched.family("other", lambda problem, plans: problem or plans)
    with pytest.raises(ConfigError, match="unknown fact 'colour'"):
        pipesched.family("other", as_1f1b, colour="red")
    with pytest.raises(ConfigError, match="did you mean 'mine'"):
        pipesched.run(PROBLEM, "mien")
    with pytest.raises(ConfigError, match="'says-no' names two functions"):
        pipesched.compare(PROBLEM, [says_no, _another()])


def test_its_title_is_what_people_see(tmp_path: Path) -> None:
    """Figures and pages say the title; documents, and what is typed, the name; a title that is taken is refused."""
    pipesched.family("mine", as_1f1b, placement="linear", title="Our GEMS (1)")
    pair = pipesched.compare(PROBLEM, ["1f1b", "mine"])
    assert [entry.label for entry in pair] == ["1f1b", "Our GEMS (1)"]
    titles = [axes.get_title("left") for axes in pipesched.figure(pair).axes]
    assert [title.partition(":")[0] for title in titles] == ["1f1b", "Our GEMS (1)"]
    assert pipesched.figure("mine", problem=PROBLEM).axes[0].get_title("left").startswith("Our GEMS (1)  4 devices")
    swept = pipesched.sweep(None, "microbatches", [4, 8], ["1f1b", "mine"])
    for result in (swept, pipesched.robustness(pair, samples=10)):
        texts = [text.get_text() for text in pipesched.figure(result).legends[0].get_texts()]
        assert "Our GEMS (1)" in texts
    pipesched.write(pair, tmp_path / "pair.html")
    assert '"name":"Our GEMS (1)"' in (tmp_path / "pair.html").read_text(encoding="utf-8").replace('": "', '":"')
    assert pair["mine"].outcome is not None
    assert pair["mine"].outcome.algorithm == "mine"
    for taken in ("gpipe", "mine", "Our GEMS (1)"):
        with pytest.raises(ConfigError, match=r"title: .* is taken: another algorithm is called so"):
            pipesched.family("other", says_no, title=taken)
    with pytest.raises(ConfigError, match="title: must be one line of text"):
        pipesched.family("other", says_no, title="two\nlines")


def _another() -> Callable[[Problem], Any]:
    def says_no(problem: Problem) -> Any:
        return None

    return says_no


@pytest.mark.parametrize("function", [pipesched.run, pipesched.compare, pipesched.sweep, estimate_of, compared_points])
def test_no_option_is_called_as_a_parameter(function: Callable[..., Any]) -> None:
    """What takes options of families by their names has no parameter that one could be called."""
    *own, options = signature(function).parameters.values()
    assert options.kind is Parameter.VAR_KEYWORD
    assert {one.name for one in own} <= {*TAKEN}


def test_data_loads_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config names what is known, and neither `module:function` nor a family of a package that nobody named."""
    (tmp_path / "evil.py").write_text("raise SystemExit('loaded')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="unknown algorithm 'evil:f'"):
        pipesched.load("devices: 2\nalgorithm: evil:f\n")
    pipesched.family("mine", as_1f1b)
    assert pipesched.load("devices: 2\nalgorithm: {mine: {depth: 2}}\n").devices == 2


FILE = """import pipesched

@pipesched.family(placement="linear")
def from_a_file(problem):
    every = range(problem.microbatches)
    return [[f"{d}{kind}{m}" for kind in "FB" for m in every] for d in range(problem.devices)]

def plain(problem):
    return from_a_file(problem)
"""


def test_a_search_of_layouts_says_what_it_raises() -> None:
    """Its points are left out with its first message, with file and line, and those of others are found."""
    space: dict[str, Any] = {
        "model": "llama-3-8b", "hardware": "h100-sxm", "parallel": {"gpus": 8, "tensor": 2, "pipeline": 2},
        "batch": {"sequence": 4096, "global": 16, "micro": 1},
    }  # fmt: skip
    tuning = pipesched.tune(None, [fails, "1f1b"], beyond=True, **space)
    line = fails.__code__.co_firstlineno + 1
    [said] = [why for why in tuning.pruned if "ZeroDivisionError" in why]
    assert said.endswith(f"{HERE}:{line}: fails: ZeroDivisionError: integer division or modulo by zero")
    assert tuning.space == tuning.simulated + sum(tuning.pruned.values())
    assert {row.point.algorithm for row in tuning.rows} == {"1f1b"}


def fails(problem: Problem) -> Any:
    return problem.devices // 0


class Recording(Executor):
    """An executor that pickles, as one of other processes does, and notes what it ran."""

    def __init__(self) -> None:
        self.count = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        from concurrent.futures import Future

        self.count += 1
        future: Future[Any] = Future()
        sent = dumps((fn, args))
        own.forget()  # as in a process of its own
        again, given_args = loads(sent)
        future.set_result(again(*given_args))
        return future


def test_other_processes(tmp_path: Path) -> None:
    """A function goes to them with its name, also one of a file; one that cannot stays here, which is said once."""
    file = tmp_path / "fine.py"
    file.write_text(FILE, encoding="utf-8")
    own.load_families(str(file))
    executor = Recording()
    names: list[Any] = ["1f1b", "from-a-file", as_1f1b, f"{file}:plain"]
    together = pipesched.compare(PROBLEM, names, executor=executor)
    assert executor.count
    assert [entry.outcome.schedule.makespan for entry in together if entry.outcome] == [165, 165, 165, 165]
    begun = executor.count
    own.family("here", _another())
    with pytest.warns(pipesched.PipeschedWarning, match="here: no other process can import its function"):
        pipesched.compare(PROBLEM, ["1f1b", "here"], executor=executor)
    assert executor.count == begun


def test_scripts_define_what_goes_to_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function at the top of the script goes to them; one that stands below its guard stays here."""
    script = tmp_path / "script.py"
    script.write_text("def top(problem): ...\nif __name__ == '__main__':\n    def below(problem): ...\n")
    main: Any = ModuleType("__main__", None)
    main.__file__ = str(script)
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(script.read_text(), vars(main))
    executor = Recording()
    assert own.executor_of([own.made_family(main.top, "top").name], executor) is executor  # type: ignore[list-item]
    with pytest.warns(pipesched.PipeschedWarning, match="below: no other process can import its function"):
        assert own.executor_of([own.made_family(main.below, "below").name], executor) is None  # type: ignore[list-item]


def test_ours_are_known_without_looking() -> None:
    """Names and aliases of pipesched are known, what is no name is not, and nothing but names is looked for."""
    assert all(map(is_known, (*FAMILIES, "GPipe")))
    assert not any(map(is_known, ("mine.json", "a/b", "", None, 3)))


def test_the_example() -> None:
    """The example of the docstring gives what it says."""
    assert doctest.testmod(own) == (0, 3)

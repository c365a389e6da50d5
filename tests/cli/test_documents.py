"""Documents that were tampered with: `show` and `check` refuse them in one line, or list the rules they break."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]
Document = dict[str, Any]

SMALL = ["run", "--devices", "2", "--stages", "2", "--microbatches", "2", "--forward", "1.5", "--backward", "3"]


@pytest.fixture
def printed(cli: Cli) -> str:
    """The document of a small 1F1B schedule: 2 devices, 2 microbatches, F 1.5, B 3."""
    return cli(*SMALL, "--json").stdout


def put(*path_and_value: Any) -> Callable[[Document], None]:
    """A change that sets the value at a path of keys and positions."""
    *path, key, value = path_and_value

    def change(document: Document) -> None:
        place: Any = document
        for step in path:
            place = place[step]
        place[key] = value

    return change


def drop(*path: Any) -> Callable[[Document], None]:
    """A change that removes what is at a path."""
    *before, key = path

    def change(document: Document) -> None:
        place: Any = document
        for step in before:
            place = place[step]
        del place[key]

    return change


def twice(from_device: int, to_device: int) -> Callable[[Document], None]:
    """A change that repeats the first slot of a device at the end of another."""

    def change(document: Document) -> None:
        document["devices"][to_device].append(document["devices"][from_device][0])

    return change


COSTS, MEMORY = ("problem", "costs"), ("problem", "memory")
REFUSED: list[tuple[Callable[[Document], None], list[str]]] = [
    (put("version", 4), ["version 4", "versions 1 to 3"]),
    (put("version", "1"), ["version '1'"]),
    (put("version", True), ["version"]),
    (put("version", None), ["version"]),
    (put("version", 1.5), ["version", "1.5"]),
    (drop("version"), ["version"]),
    (put("format", "pipesched.comparison"), ["'rows' is missing"]),
    (put("format", "pipesched.rules"), ['"format": "pipesched.schedule"']),
    (put("format", 5), ['"format": "pipesched.schedule"']),
    (drop("format"), ['"format": "pipesched.schedule"']),
    (drop("problem"), ["'problem'"]),
    (put("problem", []), ["'problem'"]),
    (drop("problem", "costs"), ["'costs'"]),
    (drop("problem", "memory"), ["'memory'"]),
    (drop("problem", "devices"), ["devices"]),
    (put("problem", "xyzzy", 1), ["xyzzy"]),
    (put(*COSTS, "xyzzy", 1), ["xyzzy"]),
    (put(*COSTS, "devices", 2), ["devices"]),
    (put("problem", "forward", 1.5), ["forward"]),
    (put("problem", "devices", 3), ["device 2"]),
    (put("problem", "devices", "2"), ["devices", "'2'"]),
    (put("problem", "stages", 1), ["stage"]),
    (put("problem", "microbatches", 0), ["microbatches", "not 0"]),
    (put("problem", "microbatches", 2.5), ["microbatches", "2.5"]),
    (put("problem", "microbatches", 10**8), ["microbatches", "operations"]),
    (put("problem", "microbatches", 10**50), ["microbatches", "too large"]),
    (put("problem", "placement", "auto"), ["placement"]),
    (put("problem", "placement", None), ["placement"]),
    (put("problem", "placement", {}), ["placement"]),
    (put("problem", "placement", [0, 0]), ["placement", "device 1"]),
    (put("problem", "placement", [0, 1.5]), ["placement"]),
    (put("problem", "lanes", []), ["lanes"]),
    (put("problem", "name", 5), ["name"]),
    (put("problem", "name", "\x1b[2J"), ["name"]),
    (put(*COSTS, "forward", None), ["costs.forward"]),
    (put(*COSTS, "forward", "1.5"), ["costs.forward", "'1.5'"]),
    (put(*COSTS, "forward", True), ["costs.forward"]),
    (put(*COSTS, "forward", -1), ["costs.forward", "at least 0", "not -1"]),
    (put(*COSTS, "forward", [1.5]), ["costs.forward", "needs 2 numbers", "has 1"]),
    (put(*COSTS, "forward", [1.5, [1.5]]), ["costs.forward[1]"]),
    (put(*COSTS, "forward", {}), ["costs.forward"]),
    (put(*COSTS, "backward_input", 1), ["costs.backward"]),
    (put(*MEMORY, "checkpoint", 2), ["memory.checkpoint", "between 0 and 1"]),
    (put(*MEMORY, "budget", 0), ["memory.budget", "more than 0"]),
    (put(*MEMORY, "activation", -1), ["memory.activation", "at least 0"]),
    (put(*MEMORY, "unit", None), ["memory.unit"]),
    (drop("devices"), ["'devices'"]),
    (put("devices", {}), ["'devices'"]),
    (drop("devices", 1), ["1 devices", "has 2"]),
    (put("devices", [5, 5]), ["devices"]),
    (put("devices", [None, None]), ["devices"]),
    (put("devices", [{"op": "0F0"}, {}]), []),
    (put("devices", ["0F0", "0F1"]), []),
    (put("devices", 0, 0, 5), ["op"]),
    (put("devices", 0, 0, "op", 5), ["'op'"]),
    (drop("devices", 0, 0, "op"), ["'op'"]),
    (put("devices", 0, 0, "op", "0X0"), ["'0X0' is no operation", "2F0"]),
    (put("devices", 0, 0, "op", "0F0 "), ["'0F0 ' is no operation"]),
    (put("devices", 0, 0, "op", "(0F0;0F1)OVERLAP_F_B"), ["a pair holds a forward F, then a full backward B"]),
    (put("devices", 0, 0, "op", "2F0"), ["2F0 is out of range", "0 to 1"]),
    (put("devices", 0, 0, "op", "0F2"), ["0F2 is out of range", "0 to 1"]),
    (put("devices", 0, 0, "op", "0F999999999"), ["0F999999999 is out of range"]),
    (twice(0, 0), ["0F0 stands twice"]),
    (twice(0, 1), ["0F0 stands twice"]),
    (drop("devices", 0, 0, "end"), ["0F0", "'end'"]),
    (put("devices", 0, 0, "start", "0"), ["0F0", "'start'", "'0'"]),
    (put("devices", 0, 0, "start", None), ["0F0", "'start'"]),
    (put("devices", 0, 0, "start", False), ["0F0", "'start'"]),
    (put("devices", 0, 0, "start", [0]), ["0F0", "'start'"]),
    (put("devices", 0, 0, "start", -1), ["0F0", "start", "-1"]),
    (put("devices", 0, 0, "start", 0.25), ["0F0", "start", "0.25"]),
    (put("algorithm", "\x1b[2J"), ["algorithm"]),
    (put("algorithm", "a\nb"), ["algorithm"]),
    (put("algorithm", "\ud800"), ["algorithm"]),
    (put("algorithm", ["1f1b"]), ["algorithm"]),
]


@pytest.mark.parametrize("command", ["show", "check"])
@pytest.mark.parametrize(("change", "fragments"), REFUSED, ids=[f"{place}" for place, _ in enumerate(REFUSED)])
def test_refused(
    cli: Cli, printed: str, command: str, change: Callable[[Document], None], fragments: list[str]
) -> None:
    """A document that is no schedule is bad input: exit 2, one line on stderr that names the file and the fault."""
    document = json.loads(printed)
    change(document)
    result = cli(command, "-", stdin=json.dumps(document))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("pipesched: <stdin>")
    assert result.stderr.count("\n") == 1
    for fragment in fragments:
        assert fragment in result.stderr


TEXTS = [  # what stands in the place of the whole document
    "",
    " ",
    "null",
    "[]",
    "5",
    '"text"',
    "{}",
    "{",
    '{"format": "pipesched.schedule"',
    "[" * 100_000,
    "devices: 4",
    "\0",
    b"\xff\xfe",
    "NaN",
]


@pytest.mark.parametrize("command", ["show", "check"])
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_no_document(cli: Cli, command: str, text: str | bytes) -> None:
    """What is no JSON object at all is refused in one line, and is not called a config."""
    result = cli(command, "-", stdin=text)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("pipesched: <stdin>")
    assert result.stderr.count("\n") == 1
    assert "YAML" not in result.stderr


@pytest.mark.parametrize("command", ["show", "check"])
def test_truncated(cli: Cli, printed: str, command: str) -> None:
    """A document that ends too early, wherever, is refused."""
    for length in range(0, len(printed) - 3, len(printed) // 25):
        result = cli(command, "-", stdin=printed[:length])
        assert (result.returncode, result.stdout) == (2, "")
        assert "<stdin> is no JSON document" in result.stderr


HUGE = "99999999999999999999"
NUMBERS = ["NaN", "Infinity", "-Infinity", "1e400", "1e-400", f"1e{HUGE}", f"1e-{HUGE}", "9" * 5000]


@pytest.mark.parametrize("command", ["show", "check"])
@pytest.mark.parametrize("number", NUMBERS, ids=[number[:30] for number in NUMBERS])
@pytest.mark.parametrize("key", ['"start": 0', '"forward": 1.5', '"activation": 1', '"devices": 2', '"version": 1'])
def test_number_out_of_range(cli: Cli, printed: str, command: str, key: str, number: str) -> None:
    """A number that no schedule holds is refused, wherever it stands."""
    assert key in printed
    text = printed.replace(key, f"{key.partition(':')[0]}: {number}", 1)
    result = cli(command, "-", stdin=text)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("pipesched: <stdin>")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("digits", [20, 30, 400, 4290])
def test_far_future(cli: Cli, printed: str, digits: int) -> None:
    """An operation that starts absurdly late is legal or refused, and nothing breaks on the way."""
    document = json.loads(printed)
    del document["metrics"], document["status"]  # which would be wrong
    document["devices"][0][-1].update(start=10**digits, end=10**digits + 3)
    for command in ("show", "check"):
        result = cli(command, "-", stdin=json.dumps(document))
        assert result.returncode in (0, 2)
        assert len(result.stderr) < 1000


def test_key_twice(cli: Cli, printed: str) -> None:
    """A key that stands twice in one object is refused, since one of the two would be lost."""
    result = cli("show", "-", stdin=printed.replace('"version": 1', '"version": 1, "version": 1'))
    assert (result.returncode, result.stdout) == (2, "")
    assert "twice" in result.stderr


def move(device: int, slot: int, start: float, end: float) -> Callable[[Document], None]:
    """A change that runs a slot at another time."""

    def change(document: Document) -> None:
        document["devices"][device][slot].update(start=start, end=end)

    return change


def swap_devices(document: Document) -> None:
    document["devices"].reverse()


def reverse_order(document: Document) -> None:
    document["devices"][0].reverse()


def rename(old: str, new: str) -> Callable[[Document], None]:
    """A change of letters in the operations of device 0."""

    def change(document: Document) -> None:
        for slot in document["devices"][0]:
            slot["op"] = re.sub(old, new, slot["op"])

    return change


def join_own_pair(document: Document) -> None:
    first = {"op": "(0F0;0B0)OVERLAP_F_B", "start": 0, "end": 4.5}
    rest = [slot for slot in document["devices"][0] if slot["op"] not in ("0F0", "0B0")]
    document["devices"][0] = [first, *rest]


# The schedule: device 0 runs F0 0-1.5, F1 1.5-3, B0 6-9, B1 10.5-13.5;
# device 1 runs F0 1.5-3, B0 3-6, F1 6-7.5, B1 7.5-10.5.
BROKEN: list[tuple[Callable[[Document], None], list[str]]] = [
    (drop("devices", 0, 3), ["0B1 is missing"]),
    (drop("devices", 1, 0), ["1F0 is missing"]),
    (put("devices", 0, []), ["0F0 is missing", "0F1 is missing", "0B0 is missing", "0B1 is missing"]),
    (put("devices", [[], []]), ["0F0 is missing", "1F1 is missing"]),
    (put("problem", "microbatches", 3), ["0F2 is missing", "1F2 is missing"]),
    (swap_devices, ["0F0 runs on device 1, not on 0", "1B1 runs on device 0, not on 1"]),
    (put("problem", "placement", [1, 0]), ["0F0 runs on device 0, not on 1"]),
    (move(1, 0, 1, 2.5), ["1F0 starts at", "before its input"]),
    (move(0, 2, 3, 6), ["0B0 starts at", "before its input"]),
    (move(0, 1, 1, 2.5), ["0F1 starts before 0F0 has ended"]),
    (move(0, 3, 10.5, 14), ["0B1 lasts"]),
    (move(0, 3, 13.5, 10.5), ["0B1 lasts"]),
    (put("problem", "costs", "forward", 1), ["0F0 lasts"]),
    (put("problem", "costs", "p2p", 0.5), ["1F0 starts at", "before its input"]),
    (reverse_order, ["has ended on the same device"]),
    (rename("B", "I"), ["0W0 is missing", "0W1 is missing"]),
    (rename("B", "W"), ["0I0 is missing", "0I1 is missing"]),
    (rename("F", "W"), ["0F0 is missing"]),
    (join_own_pair, ["0B0"]),
]


@pytest.mark.parametrize(("change", "fragments"), BROKEN, ids=[f"{place}" for place, _ in enumerate(BROKEN)])
def test_broken_rules(cli: Cli, printed: str, change: Callable[[Document], None], fragments: list[str]) -> None:
    """A schedule that breaks rules: `check` lists them with exit 1, in JSON too, and `show` refuses to draw it."""
    document = json.loads(printed)
    change(document)
    text = json.dumps(document)
    checked = cli("check", "-", stdin=text)
    assert (checked.returncode, checked.stderr) == (1, "")
    as_json = cli("check", "-", "--json", stdin=text)
    found = json.loads(as_json.stdout)
    assert (as_json.returncode, found["format"], found["valid"]) == (1, "pipesched.check", False)
    shown = cli("show", "-", stdin=text)
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "breaks the rules" in shown.stderr
    for fragment in fragments:
        assert fragment in checked.stdout
        assert any(fragment in violation for violation in found["violations"])


def test_violations_are_told_in_the_units_of_the_problem(cli: Cli, printed: str) -> None:
    """A violation speaks of the times that stand in the file, not of ticks."""
    document = json.loads(printed)
    move(1, 0, 1.2, 2.7)(document)
    result = cli("check", "-", stdin=json.dumps(document))
    assert result.returncode == 1
    assert re.search(r"1F0 starts at 1\.2\b.* 1\.5\b", result.stdout)


def test_good_document(cli: Cli, printed: str) -> None:
    """A schedule that keeps every rule: exit 0, one line, and in JSON no violations."""
    result = cli("check", "-", stdin=printed)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.count("\n") == 1
    found = json.loads(cli("check", "-", "--json", stdin=printed).stdout)
    assert found == {
        "format": "pipesched.check",
        "version": 1,
        "algorithm": "1f1b",
        "valid": True,
        "fits": True,
        "violations": [],
        "over": [],
    }


def test_over_budget(cli: Cli) -> None:
    """A schedule over its budget: `check` names each device and by how much, with exit 1; it is drawn all the same."""
    made = cli("run", "-a", "naive", "--mem-budget", "8,8,2,7.5", "--microbatches", "8", "--json")
    result = cli("check", "-", stdin=made.stdout)
    lines = [
        "device 2 holds 8 of 2 microbatch: over the budget by 6",
        "device 3 holds 8 of 7.5 microbatch: over the budget by 0.5",
    ]
    assert (result.returncode, result.stdout.splitlines()) == (1, [*lines, "rules broken: 2"])
    as_json = cli("check", "-", "--json", stdin=made.stdout)
    found = json.loads(as_json.stdout)
    assert (as_json.returncode, found["valid"], found["fits"], found["violations"]) == (1, False, False, lines)
    assert found["over"] == [{"device": 2, "memory": 8, "budget": 2}, {"device": 3, "memory": 8, "budget": 7.5}]
    assert made.returncode == cli("show", "-", stdin=made.stdout).returncode == 0


def test_false_claims_of_a_schedule_over_its_budget(cli: Cli) -> None:
    """What a document claims falsely is said too, before the budget."""
    document = json.loads(cli("run", "-a", "naive", "--mem-budget", "1", "--json").stdout)
    document["metrics"]["makespan"] += 1
    found = json.loads(cli("check", "-", "--json", stdin=json.dumps(document)).stdout)
    assert found["violations"][0].startswith("metrics.makespan is ")
    assert len(found["over"]) == 4
    assert all("over the budget by" in line for line in found["violations"][-4:])


@pytest.mark.parametrize("command", ["show", "check"])
@pytest.mark.parametrize("name", ["[/x]", "[bold]mine[/bold]", ":smile:", "mine"])
def test_name_of_the_algorithm_is_no_markup(cli: Cli, printed: str, command: str, name: str) -> None:
    """A foreign algorithm's name is printed as it is."""
    result = cli(command, "-", stdin=printed.replace('"1f1b"', json.dumps(name)))
    assert result.returncode == 0
    assert name in result.stdout


@pytest.mark.parametrize("key", ["metrics", "status", "algorithm"])
def test_what_can_be_computed_is_not_believed(cli: Cli, printed: str, key: str) -> None:
    """Metrics and status are worked out again, so that a document without them, or with wrong ones, is shown right."""
    document = json.loads(printed)
    del document[key]
    again = json.loads(cli("show", "-", "--json", stdin=json.dumps(document)).stdout)
    expected = json.loads(printed)
    if key == "algorithm":
        again["algorithm"] = "1f1b"
    assert again == expected


@pytest.mark.parametrize("forward", ["99999999", "9999999.3", "123456789"])
def test_many_digits_survive(cli: Cli, forward: str) -> None:
    """Long times next to tiny ones: the document can be read back, or the costs are refused from the start."""
    made = cli("run", "--forward", forward, "--p2p", "0.00000001", "--json")
    if made.returncode == 2:
        assert "digits" in made.stderr
        return
    result = cli("show", "-", "--json", stdin=made.stdout)
    assert (result.returncode, result.stdout) == (0, made.stdout)


@pytest.mark.parametrize(
    ("name", "claim"), [("makespan", 1), ("fits", False), ("peak_memory", [9, 9]), ("bubble", 0.9), ("idle", [0, 0])]
)
def test_mistaken_metrics(cli: Cli, printed: str, name: str, claim: object) -> None:
    """A document whose metrics are not those of its schedule is drawn, but `check` says which one is wrong."""
    document = json.loads(printed)
    document["metrics"][name] = claim
    text = json.dumps(document)
    assert cli("show", "-", stdin=text).returncode == 0
    checked = cli("check", "-", stdin=text)
    assert checked.returncode == 1
    assert f"metrics.{name} is " in checked.stdout


def test_a_better_bound_is_no_mistake(cli: Cli, printed: str) -> None:
    """Another program may know a better lower bound, and compute floats with other last digits."""
    document = json.loads(printed)
    document["metrics"]["lower_bound"] = document["metrics"]["makespan"]
    document["metrics"]["bubble"] *= 1 + 1e-15
    assert cli("check", "-", stdin=json.dumps(document)).returncode == 0

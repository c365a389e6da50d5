"""From expressions and files to dataflow graphs and units, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipesched.config.hardware import load_hardware
from pipesched.config.values import Source
from pipesched.errors import ConfigError
from pipesched.hls.schedule import UnitClass

CONFIGS = sorted((Path(__file__).parents[2] / "configs" / "hls").iterdir())


def refusal(source: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_hardware(source)
    return str(caught.value)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, content: Any) -> str:
    Path(name).write_text(content if isinstance(content, str) else json.dumps(content))
    return name


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_classics_load(path: Path) -> None:
    """Each begins with a comment that says what it shows; the loops are loops, but for the filter without feedback."""
    assert path.read_text().startswith("# ")
    loop = path.stem.endswith("-loop")
    graph = load_hardware(str(path), loop=loop).graph
    assert len(graph) >= 7
    assert graph.is_loop == loop


def test_a_name_of_a_file_is_that_file_and_anything_else_an_expression() -> None:
    assert len(load_hardware(" a + b ").graph) == 1
    write("a + b", "x = a * b\ny = x * c\n")
    hardware = load_hardware("a + b")
    assert [one.type for one in hardware.graph.operations] == ["mul", "mul"]
    assert hardware.graph.name == "a + b"


def test_options_go_over_what_a_file_says() -> None:
    path = write("p.yaml", "program: y = a * b + c\nunits: {mul: 1, add: 1}\nlatency: {mul: 2}\npipelined: [mul]\n")
    assert load_hardware(path).units == (UnitClass("mul", 1, 2, 1), UnitClass("add", 1, 1, 1))
    units = load_hardware(path, units={"mul": 3, "add": 4}, latency={"add": 5}).units
    assert units == (UnitClass("mul", 3, 2, 1), UnitClass("add", 4, 5, 5))


def test_a_graph_in_json_and_in_yaml() -> None:
    """Names may be whole numbers; an edge that stands there twice is one; a distance makes a loop."""
    content = {"name": "g", "source": "x", "ops": [[1, "MUL"], ["b", "add"]], "edges": [[1, "b"], [1, "b"]]}
    graph = load_hardware(write("g.json", content)).graph
    assert [one.name for one in graph.operations] == ["1", "b"]
    assert graph.dependences == ((0, 1, 0),)
    assert graph.name == "g"
    path = write("g.yaml", "ops: [[1, MUL], [b, add]]\nedges: [[1, b]]\n")
    assert load_hardware(path).graph.dependences
    loop = write("loop.json", {**content, "edges": [[1, "b"], ["b", 1, 2]]})
    assert load_hardware(loop, loop=True).graph.dependences == ((0, 1, 0), (1, 0, 2))
    assert "(`pipeline`)" in refusal(loop)


def test_a_text_with_a_name() -> None:
    """A source that is no file, standard input say, is read as its name says, and messages call it so."""
    assert load_hardware(Source("y = a * b + c\n", "<stdin>")).graph.name == "<stdin>"
    assert load_hardware(Source('{"ops": [["a", "add"]]}', "x.json")).graph.name == "x.json"
    with pytest.raises(ConfigError, match=r"^<stdin>:2:"):
        load_hardware(Source("y = a\nz = b ** c", "<stdin>"))


def test_what_is_no_file() -> None:
    assert "there is no such file" in refusal("missing.json")
    assert "is a directory" in refusal(".")
    assert "no operation" in refusal("")
    Path("binary.txt").write_bytes(b"\xff\xfe\0")
    assert "no text file" in refusal("binary.txt")
    assert "invalid syntax" in refusal("a" * 5000 + " b")

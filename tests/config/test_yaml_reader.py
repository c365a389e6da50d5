"""YAML is data: what a config file may be, and what is refused before it is read as a config."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pipesched import ConfigError, Problem, load as load_config, make_problem
from pipesched.text import yaml_reader
from pipesched.text.yaml_reader import MOST_BYTES, parse_yaml

Load = Callable[..., Problem]

BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdef", "bcdefg", strict=True)
)

REFUSED = [  # the file, what the message holds
    ("", ["c.yaml is empty", "`devices: 4`"]),
    ("devices: 4\n---\ndevices: 3\n", ["c.yaml:2: ", "document"]),
    ("devices: 4\ndevices: 3\n", ["c.yaml:2: 'devices'", "line 1"]),
    ("devices: 4\ncosts:\n  forward: 1\n  p2p: 1\n  forward: 2\n", ["c.yaml:5: 'forward'", "line 3"]),
    ("devices: !!python/object/apply:os.getcwd []\n", ["c.yaml:1: ", "tags are not allowed", "python/object"]),
    ("devices: !mine 4\n", ["c.yaml:1: ", "tags are not allowed", "!mine"]),
    ("name: &a [*a]\ndevices: 4\n", ["c.yaml:1: ", "nested more than 8 levels"]),
    ("devices: " + "[" * 5_000, ["c.yaml", "nested"]),
    ("devices: " + "[" * 9 + "]" * 9, ["c.yaml:1: ", "nested more than 8 levels"]),
    ("devices: 4\ncosts: {forward: *x}\n", ["c.yaml:2: ", "alias 'x'"]),
    ("? [devices]\n: 4\n", ["c.yaml:1: ", "a key must be a word"]),
    ("devices: 4\n\tstages: 3\n", ["c.yaml:2: ", r"'\t'"]),
    ("{devices: 4\n", ["c.yaml:2: "]),
    ('devices: 4\nname: "a\n', ["c.yaml:3: "]),
    ("devices: 4\nname: @a\n", ["c.yaml:2: ", "'@'"]),
    (b"devices: 4\0\n", ["c.yaml is a binary file"]),
    (bytes(range(256)), ["c.yaml is no text file (UTF-8 is expected)"]),
    ("devices: 4\n".encode("utf-16"), ["c.yaml is no text file (UTF-8 is expected)"]),
    (b"#" * (MOST_BYTES + 1), ["c.yaml is larger than 1,000,000 bytes"]),
    ("devices: 4\nname: \a\n", ["c.yaml", "#x0007"]),
    ('devices: 4\nname: "\\UFFFFFFFF"\n', ["c.yaml:2: "]),
    ("%YAML 1." + "1" * 5000 + "\n---\ndevices: 4\n", ["c.yaml"]),
]


@pytest.mark.parametrize(
    ("content", "fragments"),
    REFUSED,
    ids=[str(content)[:30].encode("unicode_escape").decode() for content, _ in REFUSED],
)
def test_refused_file(load: Load, content: str | bytes, fragments: list[str]) -> None:
    """What is no plain YAML mapping of a sane size is refused with its place, in one line."""
    with pytest.raises(ConfigError) as error:
        load(content)
    message = str(error.value)
    assert "\n" not in message
    for fragment in fragments:
        assert fragment in message


def test_alias_bomb(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Aliases of aliases are counted as they are followed, and stop at a limit that real configs do not reach."""
    assert yaml_reader.MOST_VALUES <= 1_000_000
    monkeypatch.setattr(yaml_reader, "MOST_VALUES", 10_000)
    with pytest.raises(ConfigError, match=r"^c\.yaml: more than 10,000 values"):
        load(BOMB)


ACCEPTED = [
    b"\xef\xbb\xbfdevices: 4\n",
    "devices: 4",
    "devices: 4\r\n",
    "---\ndevices: 4\n...\n",
    '{"devices": 4, "costs": {"forward": 1}}',
    "costs: &c {forward: 1}\nmemory:\ndevices: 4",
    "devices: &p 4\nstages: *p\nmicrobatches: 8",
    "devices: 04",
]


@pytest.mark.parametrize("content", ACCEPTED)
def test_accepted_file(load: Load, content: str | bytes) -> None:
    """A byte order mark, DOS lines, JSON and plain aliases are all right."""
    assert load(content) == make_problem(devices=4)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".", "is a directory"),
        ("missing.yaml", "cannot read 'missing.yaml': No such file or directory"),
        ("nul\0.yaml", "cannot read"),
        ("n" * 300, "cannot read"),
    ],
)
def test_unreadable_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, message: str) -> None:
    """A path that is no readable file says so."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as error:
        load_config(path)
    assert message in str(error.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipe_has_the_same_size_limit(tmp_path: Path) -> None:
    """A file that does not know its size, such as a pipe or /dev/zero, is cut off too."""
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)

    def write() -> None:
        with suppress(BrokenPipeError), pipe.open("wb") as file:
            file.write(b"devices: 4\n" + b"#" * MOST_BYTES)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(ConfigError, match="1,000,000"):
            load_config(str(pipe))
    finally:
        writer.join()


SCALARS = [
    ("1", 1), ("-0", 0), ("1_0", 10), ("010", 10), ("1e2", 100), ("true", True), ("FALSE", False), ("~", None),
    ("", None), ("yes", "yes"), ("12:30", "12:30"), ("2001-01-01", "2001-01-01"), ("'1'", "1"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_scalar(text: str, value: object) -> None:
    """Only numbers, true, false and null are more than text, and quotes make text of them."""
    found = parse_yaml(f"key: {text}", "x").plain()["key"]
    assert (found, type(found)) == (value, type(value))

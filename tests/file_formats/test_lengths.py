"""Lengths of documents in files: texts, JSON lists and arrays of NumPy, told apart by their content."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pipesched.errors import ConfigError
from pipesched.file_formats.files import lengths_in
from pipesched.text.yaml_reader import read_bytes


def npy(values: Any, *, allow_pickle: bool = False) -> bytes:
    """Return an array as NumPy writes it."""
    file = io.BytesIO()
    np.save(file, values, allow_pickle=allow_pickle)
    return file.getvalue()


@given(st.lists(st.integers(1, 10**9), min_size=1), st.sampled_from([" ", ",", "\n", ", ", "\t", ",\n", "\r\n"]))
def test_every_form_holds_the_same(lengths: list[int], between: str) -> None:
    """A text with any separators, a JSON list and an array give the numbers that were written."""
    text = between.join(map(str, lengths))
    forms = (text.encode(), f" {lengths}\n".encode(), npy(np.array(lengths)), npy(np.array(lengths, dtype=np.uint32)))
    assert [lengths_in(form, "docs") for form in forms] == [lengths] * 4


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"9" * 5000, "docs:1: must be a whole number of at least 1, not '9999999999999999999999999999999"),
        (b"\xff\xfe", "docs is no text file (UTF-8 is expected)"),
        (npy(np.array([1.0])), "docs must hold whole numbers in one dimension, not an array of float64 in 1"),
        (npy(np.array([[1, 2]])), "docs must hold whole numbers in one dimension, not an array of int64 in 2"),
        (npy(np.array([3, 0])), "docs: entry 1: must be a whole number of at least 1, not 0"),
        (npy(np.array([3, 4]))[:-5], "docs is no array of whole numbers: "),
        (b"\x93NUMPY\x01\x00", "docs is no array of whole numbers: "),
    ],
)
def test_what_is_no_list_of_lengths(data: bytes, message: str) -> None:
    """Each says where it stands, and what was found; of texts tests/golden/said/pack.txt does."""
    with pytest.raises(ConfigError) as caught:
        lengths_in(data, "docs")
    assert str(caught.value).startswith(message)


def test_no_pickle_is_read() -> None:
    """Neither a pickle nor an array of Python objects is unpickled."""

    class Bomb:
        def __reduce__(self) -> Any:
            return pytest.fail, ("was unpickled",)

    for data in (pickle.dumps([3, 4]), pickle.dumps(Bomb()), npy(np.array([Bomb()]), allow_pickle=True)):
        with pytest.raises(ConfigError, match=r"no text file|binary file|no array of whole numbers"):
            lengths_in(data, "docs")


def test_files(tmp_path: Path) -> None:
    """A file is read whole; what cannot be read says why."""
    (tmp_path / "lengths").write_bytes(b"9 7")
    assert read_bytes(tmp_path / "lengths") == b"9 7"
    with pytest.raises(ConfigError, match=r"cannot read .*missing': No such file or directory"):
        read_bytes(tmp_path / "missing")
    with pytest.raises(ConfigError, match=r"cannot read .*: Is a directory"):
        read_bytes(tmp_path)
    with pytest.raises(ConfigError, match=r"cannot read .*: embedded null byte"):
        read_bytes(Path("a\0b"))

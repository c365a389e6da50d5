"""The form of the kernels: which one runs, and how a stale compiled file is noticed."""

from __future__ import annotations

import pytest

from pipesched.core import arrays

needs_compiled = pytest.mark.skipif(arrays.form_of_kernels() == "plain Python", reason="no kernels are compiled here")


@needs_compiled
def test_what_is_compiled_is_of_this_source() -> None:
    """After an edit of a kernel, `python setup.py build_ext --inplace` compiles it; until then plain Python runs."""
    assert arrays.form_of_kernels() == "compiled"


@needs_compiled
def test_stale_kernels_do_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled file of another source is left alone, and people are told."""
    monkeypatch.setattr(arrays, "crc32", {}.get)
    assert arrays._found.__wrapped__() == (None, None, "plain Python, because the compiled ones are stale")

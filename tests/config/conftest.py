"""What the config tests share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pipesched.config.load import load_problem
from pipesched.pipeline.problem import Problem


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Problem]:
    """Load a config text, with options on top, from a file that messages call c.yaml."""
    monkeypatch.chdir(tmp_path)

    def load_text(text: str | bytes, options: Mapping[str, str] = {}) -> Problem:
        Path("c.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_problem("c.yaml", options)

    return load_text

"""What the config tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipesched import Problem, load as load_config


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Problem]:
    """Load a config text, with overrides on top, from a file that messages call c.yaml."""
    monkeypatch.chdir(tmp_path)

    def load_text(text: str | bytes, **overrides: Any) -> Problem:
        Path("c.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config("c.yaml", **overrides)

    return load_text

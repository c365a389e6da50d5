"""OR-Tools is loaded when it is needed: Ctrl-C meanwhile is Ctrl-C."""

from __future__ import annotations

import pytest

from pipesched.core import loading


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), None])
def test_ctrl_c_while_or_tools_loads(cause: BaseException | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a binary module makes of an interrupt is an interrupt again; a missing module stays what it is."""

    def interrupted(name: str) -> None:
        raise ImportError(f"{name}: initialization failed") from cause

    monkeypatch.setattr(loading, "import_module", interrupted)
    with pytest.raises(ImportError if cause is None else KeyboardInterrupt):
        loading.load("sat.python.cp_model")

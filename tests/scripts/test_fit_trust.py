"""The evidence of the package is what the script makes."""

from __future__ import annotations

import json

import pytest

from fit_trust import TARGET, document, rounded, text_of
from trust_evidence import evidence_rows
from trust_fit import fit


@pytest.mark.nightly
def test_the_evidence_is_up_to_date() -> None:
    """Every published run is estimated and the model fitted anew: the same runs, and the same numbers."""
    made, stored = document(fit([rounded(row) for row in evidence_rows()])), json.loads(TARGET.read_text("utf-8"))
    assert made["aside"] == stored["aside"]
    for one, known in zip(made["runs"], stored["runs"], strict=True):
        assert _plain(one) == _plain(known)
        for key in ("published", "estimated"):
            assert one[key] == pytest.approx(known[key], rel=1e-5)
        assert one["weights"] == pytest.approx(known["weights"], abs=1e-5)
    for key, margin in (("spreads", 1e-3), ("factors", 1e-3), ("memory", 1e-4)):
        assert made[key] == pytest.approx(stored[key], rel=margin), key


def _plain(entry: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in entry.items() if key not in ("published", "estimated", "weights")}


def test_text_is_read_as_it_was() -> None:
    """The file is a line a run, and written again it is the same."""
    text = TARGET.read_text(encoding="utf-8")
    content = json.loads(text)
    assert text_of(content) == text
    assert len(text.splitlines()) < 2 * len(content["runs"]) + 20

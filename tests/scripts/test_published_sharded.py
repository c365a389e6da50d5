"""Published runs that shard weights beside estimates that say so."""

from __future__ import annotations

import pytest

import published_sharded
from pipesched.estimation.trust.evidence import evidence_base
from published_runs import published_runs


@pytest.fixture(autouse=True)
def runs_of_eight_billion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read torchtitan's runs on 8 and on 128 GPUs, and one of another source."""
    chosen = [run for run in published_runs() if run.name in ("torchtitan-1", "torchtitan-7", "llama3-t4-0")]
    monkeypatch.setattr(published_sharded, "published_runs", lambda: chosen)


def test_steps_and_peaks_are_beside_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """Steps are nearer than where weights are whole; a whole stage at once is more than FSDP2 holds."""
    rows = list(published_sharded.sharded_rows())
    assert [(unit, row.name) for unit, row in rows] == [
        (unit, name) for name in ("torchtitan-1", "torchtitan-7") for unit in ("ms", "GB")
    ]
    assert all(-0.25 < row.error < 0 if unit == "ms" else row.error > 0.3 for unit, row in rows)
    published_sharded.sharded_table()
    assert capsys.readouterr().out.count("torchtitan") == len(rows)


def test_the_evidence_has_their_level() -> None:
    """Runs of this kind, and no others, divide weights."""
    sharded = {run.name for run in published_runs() if published_sharded.is_sharded(run)}
    assert {run.run for run in evidence_base().runs if run.compared.facts.shard == "weights"} == sharded

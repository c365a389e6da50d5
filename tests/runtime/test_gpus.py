"""Ranks on GPUs: who shares one, and by what they talk; where there is one, NCCL between ranks that share it.

Those tests take the ranks of one GPU for machines. PIPESCHED_TEST_DEVICE=cuda runs them, and what others train on it.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from threading import Barrier, Lock
from types import SimpleNamespace
from typing import Any, cast

import pytest

import pipesched
from pipesched import ConfigError
from tests.runtime.random_plans import made, random_schedule, sizes_of
from tests.runtime_ranks import DEVICE, Pool, pool_of
from tests.torch_ranks import needs_torch

pytestmark = needs_torch
needs_gpu = pytest.mark.skipif(DEVICE != "cuda", reason="PIPESCHED_TEST_DEVICE is not cuda")
RANKS = 4
TURNS = "they take turns, and their messages go through the memory of the host"


def gpu() -> Any:
    import torch

    return torch.device("cuda", 0)


def test_ranks_share_gpus_where_these_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third of three ranks is on the first of two GPUs."""
    import torch

    from pipesched.runtime.devices import take_device

    taken: list[Any] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    assert [take_device(rank, "cuda").index for rank in range(3)] == [0, 1, 0]
    assert [device.index for device in taken] == [0, 1, 0]


def test_ranks_know_whether_they_share_a_gpu(tmp_path: Path) -> None:
    """Each tells the others the name of its GPU; only two equal names are one GPU."""
    from tests.runtime.models import shares_gpus

    pool = Pool(2, tmp_path)
    try:
        for names, shared in ((["a", "b"], False), (["a", "a"], True), ([None, None], False), (["a", None], False)):
            assert pool.run(2, shares_gpus, names) == [shared, shared]
    finally:
        pool.stop()


def test_a_shared_gpu_has_messages_through_the_host() -> None:
    """NCCL serves no ranks that share a GPU, so theirs go by gloo; tensors of CPUs are sent as they are."""
    import torch

    from pipesched.runtime.channels import Channels
    from pipesched.runtime.run import _channels_for

    for shared, device in ((True, gpu()), (False, torch.device("cpu"))):
        team: Any = SimpleNamespace(shares_gpus=shared, rank=0)
        assert isinstance(_channels_for(team, [[], []], device), Channels)


@pytest.mark.parametrize(
    ("kind", "ranks", "backend", "sentence"),
    [
        ("cuda", 2, "nccl", None),
        ("cuda", 3, "gloo", f"3 ranks share 2 GPUs: {TURNS}"),
        ("cpu", 4, "gloo", "4 ranks share 3 cores: each operation takes longer than on a core of its own"),
        ("cpu", 3, "gloo", None),
    ],
)
def test_ranks_talk_by_nccl_where_each_has_a_gpu(
    monkeypatch: pytest.MonkeyPatch, kind: str, ranks: int, backend: str, sentence: str | None
) -> None:
    """Where some share what they run on, a sentence says so."""
    import torch

    from pipesched.runtime import devices

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(devices, "cores", lambda: 3)
    assert devices.backend_of(kind, ranks) == backend
    assert devices.sharing(kind, ranks) == sentence


def test_modules_stand_on_the_current_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the streams of another one nothing would be waited for, or measured."""
    import torch

    from pipesched.runtime.devices import require_current

    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    for device in ("cpu", "cuda", "cuda:0"):
        require_current(torch.device(device))
    with pytest.raises(ConfigError, match=r"stand on cuda:1; the current GPU of this process is 0: .*set_device\(1\)"):
        require_current(torch.device("cuda", 1))


@pytest.mark.parametrize("failed", [True, False])
def test_communicators_end_all_at_once(monkeypatch: pytest.MonkeyPatch, failed: bool) -> None:
    """A kernel of one may wait for that of another; each ends once, and those that failed are kept."""
    from pipesched.runtime import cuda

    met, ended = Barrier(2, timeout=20), list[int]()

    class Group:
        def abort(self) -> None:
            ended.append(met.wait())

    channels = object.__new__(cuda.CudaChannels)
    channels._team = cast("Any", SimpleNamespace(is_closed=failed))
    channels._outgoing, channels._incoming, channels._sent = {1: Group()}, {2: Group()}, deque()
    channels._ending, channels._is_ended = Lock(), False
    kept = list[Any]()
    monkeypatch.setattr(cuda, "_FAILED", kept)
    channels.close()
    channels.close()
    assert sorted(ended) == [0, 1]
    assert len(kept) == 2 * failed


pool = pool_of(RANKS)


@needs_gpu
@pytest.mark.parametrize("plan", ["1f1b", "interleaved", "zb-v", "dualpipe", *range(6)])
def test_plans_by_nccl(pool: Pool, plan: str | int) -> None:
    """Losses and gradients are those without a pipeline, of microbatches with other shapes in each step too."""
    from tests.runtime.models import train_apart

    schedule = made(plan, RANKS).schedule if isinstance(plan, str) else random_schedule(plan)
    sizes = sizes_of(schedule.problem.microbatches)
    for one in pool.run(schedule.problem.devices, train_apart, schedule, 3, sizes):
        assert max(one.losses, one.gradients) < 1e-9


@needs_gpu
@pytest.mark.parametrize("what", ["raises", "raises in a backward", "is killed"])
def test_a_failure_by_nccl(pool: Pool, what: str) -> None:
    """All ranks hear of it soon, though their devices wait for what will never come; the next attempt trains."""
    from tests.runtime.failures import attempt_apart

    problem = pipesched.make_problem(devices=RANKS, stages=RANKS, microbatches=6, forward=1, backward=2)
    schedule = pipesched.run(problem, "1f1b").schedule

    def raised(what: str) -> list[Any]:
        return [one and one.kind for one in pool.run(RANKS, attempt_apart, schedule, RANKS, 6, what)]

    own = None if what == "is killed" else "Planned"
    assert raised(what) == ["RankFailed", own, "RankFailed", "RankFailed"]
    assert raised("nothing") == ["nothing"] * RANKS

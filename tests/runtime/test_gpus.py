"""GPUs, which no test has: that they are untried is said in one sentence and one warning; ranks may share one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pipesched
from pipesched.errors import PipeschedWarning
from tests.runtime_ranks import Pool
from tests.torch_ranks import needs_torch

pytestmark = needs_torch
ROOT = Path(__file__).parents[2]


def gpu() -> Any:
    import torch

    return torch.device("cuda", 0)


@contextmanager
def one_warning() -> Iterator[None]:
    """Inside the block there is one warning of ours: that GPUs are untried."""
    from pipesched.runtime.devices import UNTRIED

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert [str(one.message) for one in caught if one.category is PipeschedWarning] == [UNTRIED]
    assert {one.filename for one in caught if one.category is PipeschedWarning} == {__file__}


def test_one_sentence_says_it_everywhere() -> None:
    """The warning, the help of `train`, its page, the README and the package have the same words."""
    from pipesched import runtime
    from pipesched.cli.train import command
    from pipesched.runtime.devices import UNTRIED

    sentence = f"{UNTRIED[0].upper()}{UNTRIED[1:]}."
    page = (ROOT / "docs" / "how-to" / "train.md").read_text(encoding="utf-8")
    for text in (command.__doc__, runtime.__doc__, page):
        assert text is not None
        assert text.count(sentence) == 1
    assert f"; {UNTRIED}." in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def test_runtime_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Runtime on a GPU warns, on the first rank; one on a CPU does not."""
    import torch

    from pipesched.runtime import Runtime, run
    from pipesched.runtime.channels import Channels
    from pipesched.runtime.transfers import Transfers

    schedule = pipesched.run(pipesched.make_problem(devices=1, microbatches=2, forward=1, backward=2), "list").schedule
    modules = {0: torch.nn.Linear(2, 2)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Runtime(schedule, modules, torch.nn.functional.mse_loss)
    monkeypatch.setattr(run, "device_of", lambda _: gpu())
    monkeypatch.setattr(run, "name_of_gpu", lambda _: "gpu 0")
    monkeypatch.setattr(run, "transfers_for", lambda _, host: Transfers(host))
    monkeypatch.setattr(run, "_channels_for", lambda team, *_: Channels(team, ()))
    with one_warning():
        Runtime(schedule, modules, torch.nn.functional.mse_loss)


def test_train_warns_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The process that starts the ranks warns; they do not."""
    import torch

    from pipesched.runtime import train, training

    @contextmanager
    def no_processes(count: int, kind: str) -> Iterator[Any]:
        assert (count, kind) == (2, "cuda")
        yield lambda *_, **__: [{"losses": []}, None]

    monkeypatch.setattr(training, "kind_of_device", lambda: "cuda")
    monkeypatch.setattr(training, "rank_processes", no_processes)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    problem = pipesched.make_problem(devices=2, stages=2, microbatches=2, forward=1, backward=2)
    pipesched.write(pipesched.run(problem, "1f1b"), tmp_path / "schedule.json")
    with one_warning():
        assert train(tmp_path / "schedule.json") == {"losses": []}


def test_profile_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile on a GPU warns before it measures."""
    import torch

    from pipesched.runtime import profile, profiling

    monkeypatch.setattr(profiling, "take_device", lambda *_: gpu())
    with one_warning(), suppress(Exception):  # there is none
        profile([torch.nn.Linear(2, 2)], (2, 2))


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

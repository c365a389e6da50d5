"""Many calls: their order, how many are under way, and what they raise."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import count

import pytest

from pipesched import ConfigError, open_executor
from pipesched.errors import NotApplicable
from pipesched.executors.batches import FEWEST, GROWTH, CallBatch, map_batches
from pipesched.executors.local import InThisProcess
from tests.executors.work import broken, failing, slowly, squared


@pytest.fixture(params=["none", "here", "threads", "local:2"])
def pool(request: pytest.FixtureRequest) -> Iterator[Executor | None]:
    """No executor, one of this process, one of the standard library, and processes."""
    if request.param == "none":
        yield None
        return
    made = {"here": InThisProcess, "threads": ThreadPoolExecutor}
    with made[request.param]() if request.param in made else open_executor(request.param) as executor:
        yield executor


def test_results_in_order(pool: Executor | None) -> None:
    assert list(map_batches(pool, squared, range(2000))) == [number * number for number in range(2000)]
    assert list(map_batches(pool, squared, iter(range(50)))) == [number * number for number in range(50)]
    assert list(map_batches(pool, squared, [])) == []


def test_an_exception_is_raised_where_its_result_is_due(pool: Executor | None) -> None:
    """The results before it come through; the exception is the very one, with its attributes."""
    results = map_batches(pool, failing, range(5))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(NotApplicable, match="2 is odd") as caught:
        next(results)
    assert caught.value.key == "number"
    assert list(results) == []


def test_a_defect_says_where_it_was() -> None:
    with open_executor("local:2") as executor, pytest.raises(ZeroDivisionError) as caught:
        list(map_batches(executor, broken, [1, 0]))
    assert "return 1 / number" in str(caught.value.__cause__)


def test_calls_are_read_as_they_are_needed(pool: Executor | None) -> None:
    """Endless calls are fine: a bounded number is ahead of what was asked for."""
    numbers = count()
    results = map_batches(pool, slowly, numbers)
    assert [next(results) for _ in range(3)] == [0, 1, 4]
    results.close()
    assert next(numbers) < 3 + 2 * FEWEST * GROWTH


class Counting(InThisProcess):
    """An executor that notes how many calls each batch holds."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.sizes.append(fn.size)
        return super().submit(fn, *args, **kwargs)


def test_short_calls_are_sent_in_batches_and_long_ones_alone() -> None:
    with Counting() as short:
        list(map_batches(short, squared, iter(range(5000))))
    assert short.sizes[0] == 1
    assert len(short.sizes) < 20
    with Counting() as long:
        list(map_batches(long, slowly, iter(range(12))))
    assert max(long.sizes) <= 5  # of 20 ms
    with Counting() as some:
        list(map_batches(some, squared, range(24)))
    assert max(some.sizes) <= 3  # of a few, any may be long


def test_another_pipesched_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = CallBatch(squared, [1, 2])
    assert batch().results == [1, 4]
    monkeypatch.setattr("pipesched.executors.batches.__version__", "99.1")
    with pytest.raises(ConfigError, match=r"a worker has pipesched 99.1, and this process \d"):
        batch()

"""What names an executor: what is allowed, the nearest valid text for what is not, and numbers that contradict."""

from __future__ import annotations

import re

import pytest

from pipesched.errors import ConfigError
from pipesched.executors import cores
from pipesched.executors.opening import Spec, read_spec, spec_of_jobs


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("local", Spec(cores())),
        ("local:1", Spec(1)),
        (" local:16 ", Spec(16)),
        ("dask://10.0.0.1:8786", Spec(1, "dask://10.0.0.1:8786")),
        ("dask://node-7.cluster:80", Spec(1, "dask://node-7.cluster:80")),
        ("dask://[fe80::1]:8786", Spec(1, "dask://[fe80::1]:8786")),
        (" dask://host:8786 ", Spec(1, "dask://host:8786")),
    ],
)
def test_what_is_allowed(text: str, spec: Spec) -> None:
    assert read_spec(text) == spec


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("Local", "local"),
        ("local:", "local"),
        ("locla:4", "local:4"),
        ("local:0", "local:1"),
        ("local:5000", "local:1000"),
        ("8", "local:8"),
        ("dask", "dask://HOST:8786"),
        ("dask://", "dask://HOST:8786"),
        ("dask://node7", "dask://node7:8786"),
        ("dask:node7:99", "dask://node7:99"),
        ("dask://node7:99999", "dask://node7:8786"),
        ("tcp://10.0.0.1:8786", "dask://10.0.0.1:8786"),
        ("node7:8786", "dask://node7:8786"),
    ],
)
def test_the_nearest_valid_text_is_named(text: str, nearest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_spec(text)
    rest = f"did you mean {nearest}? allowed are local, local:N or dask://HOST:PORT"
    assert str(caught.value) == f"executor: unknown executor {text!r}; {rest}"
    assert "HOST" in nearest or read_spec(nearest)


@pytest.mark.parametrize("value", ["", "threads", "dask//x y", None, 4, "x" * 10_000])
def test_what_is_like_nothing_valid(value: object) -> None:
    """It is refused on one short line all the same."""
    with pytest.raises(ConfigError, match=r"local, local:N or dask://HOST:PORT") as caught:
        read_spec(value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("jobs", "executor", "spec"),
    [
        (0, None, "local"),
        (3, None, "local:3"),
        (0, "local:2", "local:2"),
        (2, "local:2", "local:2"),
        (2, "local", "local:2"),
        (0, "dask://h:1", "dask://h:1"),
    ],
)
def test_jobs_and_an_executor(jobs: int, executor: str | None, spec: str) -> None:
    assert spec_of_jobs(jobs, executor) == spec


@pytest.mark.parametrize(("jobs", "executor"), [(2, "local:3"), (1, "local:2"), (2, "dask://h:1")])
def test_jobs_and_an_executor_that_contradict(jobs: int, executor: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(executor)) as caught:
        spec_of_jobs(jobs, executor)
    assert caught.value.key == "jobs"

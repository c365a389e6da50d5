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

"""Documents in microbatches while a search moves them: what each microbatch holds, and what each rank takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pipesched.core.arrays import Ints, np

Taking = Callable[[Ints, Ints], Ints]  # works and sizes, a row a microbatch and a column a case: what each takes


class DocumentSizes(NamedTuple):
    """Of each document, from long to short: its work and its size in parts of a whole, and its tokens."""

    work: Ints
    size: Ints
    tokens: Ints


class Bins:
    """D x M bins, bin r x M + i the microbatch that rank r feeds as number i."""

    def __init__(
        self, documents: DocumentSizes, bins: Sequence[Sequence[int]], microbatches: int, cap: int, taking: Taking
    ):
        self.documents, self.microbatches, self.taking = documents, microbatches, taking
        self.bin_of = np.empty(len(documents.tokens), dtype=np.int64)
        for number, members in enumerate(bins):
            self.bin_of[list(members)] = number
        self.count = np.bincount(self.bin_of, minlength=len(bins))
        self.work, self.size, used = (self._sums(values, len(bins)) for values in documents)
        self.room = cap - used
        works, sizes = (column.reshape(-1, microbatches).T for column in (self.work, self.size))
        self.takes = taking(works, sizes)

    def _sums(self, values: Ints, bins: int) -> Ints:
        found = np.zeros(bins, dtype=np.int64)
        np.add.at(found, self.bin_of, values)
        return found

    @property
    def members(self) -> list[list[int]]:
        """The documents of each bin."""
        found: list[list[int]] = [[] for _ in self.count]
        for document, number in enumerate(self.bin_of.tolist()):
            found[number].append(document)
        return found

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.takes)

    def of_rank(self, rank: int) -> slice:
        """Return the bins of a rank."""
        return slice(rank * self.microbatches, (rank + 1) * self.microbatches)

    def documents_of(self, rank: int) -> Ints:
        """Return the documents of a rank, from long to short."""
        return np.flatnonzero(self.bin_of // self.microbatches == rank)

    def cases(self, rank: int, count: int) -> tuple[Ints, Ints]:
        """Return the works and sizes of a rank, so many times side by side, to be changed."""
        part = self.of_rank(rank)
        return np.repeat(self.work[part][:, None], count, axis=1), np.repeat(self.size[part][:, None], count, axis=1)

    def put(self, document: int, target: int) -> None:
        """Move a document to a bin."""
        source = self.bin_of[document]
        for held, amounts in ((self.work, self.documents.work), (self.size, self.documents.size)):
            held[source] -= amounts[document]
            held[target] += amounts[document]
        self.room[source] += self.documents.tokens[document]
        self.room[target] -= self.documents.tokens[document]
        self.count[source] -= 1
        self.count[target] += 1
        self.bin_of[document] = target

    def exchange(self, first: int, second: int) -> None:
        """Let two bins exchange all that they hold."""
        in_first, in_second = self.bin_of == first, self.bin_of == second
        self.bin_of[in_first], self.bin_of[in_second] = second, first
        for held in (self.work, self.size, self.room, self.count):
            held[[first, second]] = held[[second, first]]

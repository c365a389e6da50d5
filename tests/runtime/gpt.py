"""A small GPT with its data and mistakes in them, as a user would write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

WORDS, WIDTH, LENGTH, LAYERS = 50, 32, 16, 2


class TokenEmbedding(torch.nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Words and their places."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)

    def forward(self, words: Any) -> Any:
        return self.words(words) + self.places(torch.arange(words.shape[-1], device=words.device))


class AttentionBlock(torch.nn.Module):  # type: ignore[misc]
    """Causal attention and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)])
        self.mix, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.inner = torch.nn.Sequential(torch.nn.Linear(WIDTH, 64), torch.nn.GELU(), torch.nn.Linear(64, WIDTH))

    def forward(self, data: Any) -> Any:
        query, key, value = self.mix(self.norms[0](data)).chunk(3, -1)
        data = data + self.out(functional.scaled_dot_product_attention(query, key, value, is_causal=True))
        return data + self.inner(self.norms[1](data))


def untied() -> list[Any]:
    """An embedding, blocks and a head, in float64."""
    torch.manual_seed(1)
    head = torch.nn.Linear(WIDTH, WORDS, bias=False)
    return [piece.double() for piece in (TokenEmbedding(), *(AttentionBlock() for _ in range(LAYERS)), head)]


def tied() -> list[Any]:
    """The head has the weight of the embedding."""
    pieces = untied()
    pieces[-1].weight = pieces[0].words.weight
    return pieces


def drawn() -> list[Any]:
    """Weights that each process draws for itself, tied, with dropout."""
    torch.seed()
    head, words, drop = torch.nn.Linear(WIDTH, WORDS, bias=False), TokenEmbedding(), torch.nn.Dropout(0.2)
    head.weight = words.words.weight
    return [piece.double() for piece in (words, torch.nn.Sequential(drop, AttentionBlock()), AttentionBlock(), head)]


def halved() -> list[Any]:
    """Weights of 16 bits."""
    return [piece.bfloat16() for piece in untied()]


def data(step: int, microbatches: int) -> tuple[Any, Any]:
    """Words, and the words that follow."""
    generator = torch.Generator().manual_seed(step)
    words = torch.randint(0, WORDS, (microbatches, 4, LENGTH + 1), generator=generator)
    return words[..., :-1], words[..., 1:]


def packed(step: int, microbatches: int) -> tuple[Any, Any]:
    """Words in other numbers of rows, and of other lengths, in each microbatch of each step."""
    generator = torch.Generator().manual_seed(step)
    rows = [(step + microbatch) % 3 + 1 for microbatch in range(microbatches)]
    words = [torch.randint(0, WORDS, (one, LENGTH + 1 - 4 * (one % 2) - step), generator=generator) for one in rows]
    return [one[..., :-1] for one in words], [one[..., 1:] for one in words]


def short(step: int, microbatches: int) -> tuple[Any, Any]:
    """A microbatch less than asked for."""
    return data(step, microbatches - 1)


def later(step: int, microbatches: int) -> tuple[Any, Any]:
    """Data that end after a step."""
    if step:
        raise KeyError("no more\ndata")
    return data(step, microbatches)


def broken() -> list[Any]:
    """The second block takes another width."""
    pieces = untied()
    pieces[2] = torch.nn.Linear(WIDTH - 1, WIDTH).double()
    return pieces


def raises() -> list[Any]:
    """No model."""
    raise FileNotFoundError("no weights here")


def loss(output: Any, target: Any) -> Any:
    """The loss of the head, as PyTorch has it."""
    return functional.cross_entropy(output.flatten(0, 1), target.flatten())


def numbers(output: Any, target: Any) -> Any:
    """No loss: a number for each word."""
    return output.mean(-1)


def train_unpipelined(
    pieces: list[Any], steps: int, microbatches: int, given: Any = data, rows: Sequence[int] | None = None
) -> list[float]:
    """Train in plain PyTorch, and return the losses: means over microbatches, or with their rows over all rows."""
    weights = {id(weight): weight for piece in pieces for weight in piece.parameters()}
    optimizer, losses = torch.optim.Adam(weights.values(), lr=1e-3), []
    parts = [1.0] * microbatches if rows is None else [count / sum(rows) for count in rows]
    for step in range(steps):
        found = []
        for words, target, part in zip(*given(step, microbatches), parts, strict=True):
            found.append(loss(torch.nn.Sequential(*pieces)(words), target) * part)
            found[-1].backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(sum(float(one.detach()) for one in found) / sum(parts))
    return losses

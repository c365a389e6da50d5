"""What messages between devices wait for: nobody, or each other in queues; and in which order a device issues them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipesched.checks import require_name, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.shapes import Field, OneOf
from pipesched.pipeline.unit_arguments import known_entries
from pipesched.pipeline.units import entry_of

FREE, EDGE, PAIR, RANK, ON_DEVICE = "free", "edge", "pair", "rank", "device"
QUEUES = (FREE, EDGE, PAIR, RANK, ON_DEVICE)
PYTORCH, BEST, OF_FILE = "pytorch", "best", "file"
ORDERS = (PYTORCH, BEST, OF_FILE)
MESSAGES = {
    "queue": Field(
        "messages.queue",
        OneOf(*QUEUES),
        "which messages go one after another: none (free, default), those from one device to another (edge), between"
        " two devices (pair), of a device (rank), or those of a device among its computations (device)",
        "messages",
        flag="messages",
        called="queue of messages",
    ),
    "order": Field(
        "messages.order",
        OneOf(*ORDERS),
        "in which order a device issues them: as PyTorch's runtime would (pytorch), in the best one found (best), or as"
        " the file of the plan says (file); default: file where it says one, else pytorch",
        "messages",
        flag="messages-order",
        called="order of messages",
    ),
}


@dataclass(frozen=True)
class Messages:
    """Queues in which messages go one after another, and the `order` in them (None: of the plan, or PyTorch's).

    Raises ConfigError, about `messages`, for names that are none.
    """

    queue: str = FREE
    order: str | None = None

    def __post_init__(self) -> None:
        with entry_of("messages", "queue"):
            require_name(QUEUES, self.queue, "queue", "messages")
        if self.order is not None:
            with entry_of("messages", "order"):
                require_name(ORDERS, self.order, "order", "messages")
            if self.queue == FREE:
                queues = ", ".join(QUEUES[1:])
                raise ConfigError(f"have no order without a `queue`: {queues}", "messages", entry="order")

    @property
    def is_free(self) -> bool:
        """Whether no message waits for another."""
        return self.queue == FREE


def read_messages(value: Any) -> Messages | None:
    """Return the queues of messages from a name or a mapping; None where they are free. Raises ConfigError."""
    if isinstance(value, str):
        value = {"queue": value}
    if value is not None and not isinstance(value, (Mapping, Messages)):
        what = f"must be a queue ({', '.join(QUEUES)}) or a mapping of {', '.join(MESSAGES)}, not {shown(value)}"
        raise ConfigError(what, "messages")
    found = Messages(**known_entries(value, [*MESSAGES], "messages")) if isinstance(value, Mapping) else value
    return None if found is None or found.is_free else found

"""Every value of a config, in one table: its key, its meaning, and the command-line option that overrides it.

The reader, the overrides, the JSON Schema and the sweep of `compare` all read this table.
"""

from __future__ import annotations

from typing import NamedTuple

COUNT, PER_STAGE, PER_BOUNDARY, PER_DEVICE, FRACTION, PLACEMENT, LANES, TEXT, ALGORITHM = (
    "count",
    "per stage",
    "per boundary",
    "per device",
    "fraction",
    "placement",
    "lanes",
    "text",
    "algorithm",
)
WHOLE, FLAG, PERIOD, STARTS = "whole number", "flag", "period", "starts"  # of the options of algorithms


class Field(NamedTuple):
    """One value: its dotted key in the file, its shape, what it means, and its option (None: file only)."""

    key: str
    shape: str
    help: str
    option: str | None = None
    argument: str | None = None  # the parameter of make_problem, where it is not the last part of the key

    @property
    def name(self) -> str:
        """The parameter of make_problem that takes it."""
        return self.argument or self.key.rpartition(".")[2]


FIELDS = (
    Field("name", TEXT, "a title for charts and tables"),
    Field("devices", COUNT, "P, the pipeline ranks", "--devices"),
    Field(
        "stages",
        COUNT,
        "S, the contiguous chunks of the model; default: one a device (two without a config)",
        "--stages",
    ),
    Field("microbatches", COUNT, "M; default 2P", "--microbatches"),
    Field(
        "placement",
        PLACEMENT,
        "auto (the algorithm's own), linear, loop, v, wave, bidirectional, or the device of each stage",
        "--placement",
    ),
    Field(
        "algorithm",
        ALGORITHM,
        "what `run` takes without --algo: a name, or one name with its options, {interleaved: {group_size: 8}}",
    ),
    Field("time_unit", TEXT, "a label for times, for instance ms"),
    Field("lanes", LANES, "transfer lanes: each device its own, or a pair of devices shares both"),
    Field("costs.forward", PER_STAGE, "time of a forward; default 1 (5 without a config)", "--forward"),
    Field(
        "costs.backward",
        PER_STAGE,
        "time of a full backward; default twice forward (10 without a config)",
        "--backward",
    ),
    Field("costs.backward_input", PER_STAGE, "its half for the input gradient", "--backward-input"),
    Field("costs.backward_weight", PER_STAGE, "its half for the weight gradient", "--backward-weight"),
    Field("costs.recompute", PER_STAGE, "time to run a forward again; default forward", "--recompute-cost"),
    Field("costs.overlap", PER_STAGE, "time of an overlapped pair F&B; default: the sum of its parts", "--overlap"),
    Field("costs.p2p", PER_BOUNDARY, "latency of an edge between two devices; default 0", "--p2p"),
    Field("costs.offload", PER_STAGE, "time to offload one activation", "--offload-cost"),
    Field("costs.reload", PER_STAGE, "time to load it back; default offload"),
    Field("memory.unit", TEXT, "a label for memory, for instance GB; default microbatch"),
    Field("memory.activation", PER_STAGE, "of one stage and microbatch; default P/S", "--activation"),
    Field("memory.retain", FRACTION, "fraction held from the end of I to the end of W; default 1", "--retain"),
    Field("memory.checkpoint", FRACTION, "fraction that a recomputed microbatch keeps; default 0", "--checkpoint"),
    Field("memory.static", PER_STAGE, "weights, gradients, optimizer, per stage; default 0"),
    Field("memory.budget", PER_DEVICE, "limit of activations and static memory; absent: none", "--mem-budget"),
)

ALGORITHM_FIELDS = (  # options of algorithms; those without an option of the command line stand in a config only
    Field("group_size", COUNT, "interleaved: microbatches that visit a chunk in a row; default P", "--group-size"),
    Field("lifo", FLAG, "naive: backwards in reverse order", "--lifo"),
    Field("priority", TEXT, "list: none, asap, alap, mobility, successors, descendants", "--priority"),
    Field("tie", TEXT, "list: dfs (lifo), bfs, fifo, input, reverse, random, most-descendants, pairing", "--tie"),
    Field("objective", TEXT, "zb-auto: span (default), makespan", "--objective"),
    Field("seed", WHOLE, "list: seed of the random tie", "--seed"),
    Field("period", PERIOD, "block: the time from one microbatch to the next"),
    Field("forward", STARTS, "block: when F starts on each stage, after its microbatch begins"),
    Field("backward", STARTS, "block: when B starts on each stage"),
    Field("backward_input", STARTS, "block: when I starts on each stage, instead of B"),
    Field("backward_weight", STARTS, "block: when W starts on each stage; default: the first free time after I"),
    Field("peak", COUNT, "block: chunks that a device may hold; default: what the block holds by residence"),
    Field("squeeze", FLAG, "block: move operations up where time and memory allow (default), or keep its order"),
)

BY_KEY = {field.key: field for field in FIELDS}
OPTIONS = {field.option: field for field in FIELDS if field.option}
ALGORITHM_BY_KEY = {field.key: field for field in ALGORITHM_FIELDS}
SECTIONS = ("costs", "memory")


def keys_of(section: str) -> list[str]:
    """The keys that may stand in a section of the file ("" is the top level)."""
    if not section:
        return [field.key for field in FIELDS if "." not in field.key] + list(SECTIONS)
    return [field.key.partition(".")[2] for field in FIELDS if field.key.startswith(f"{section}.")]

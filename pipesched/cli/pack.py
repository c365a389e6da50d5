"""`pipesched pack`: documents into the microbatches of data-parallel ranks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipesched.cli.options import ProblemSource, Screen, Target, argument, as_value, option, parse_value
from pipesched.cli.output import print_result, printed_before, save, target_format, write_target
from pipesched.cli.progress import doing
from pipesched.cli.reading import ALGO, default_algorithm, given_config, read_stdin
from pipesched.errors import ConfigError

if TYPE_CHECKING:
    from pipesched.results.packing import Packing


def command(
    lengths: str = argument(
        "LENGTHS",
        "The tokens of each document: a text, a JSON list or an array of NumPy (.npy); - reads standard input.",
        ...,
    ),
    *,
    ranks: str | None = option("--ranks N", "data-parallel ranks, each with a pipeline of its own"),
    cap: str | None = option("--cap T", "the most tokens of a microbatch"),
    microbatches: str | None = option(
        "--microbatches N|N:N|auto|best",
        "of each rank; default the config's, auto: the least for which a packing is found, best: that of the shortest,"
        " of all or of a range",
    ),
    multiple_of: str | None = option("--multiple-of N", "numbers of microbatches that are tried are multiples of N"),
    attention: str | None = option(
        "--attention X", "the part of a document's work that grows with the square of its tokens; default 0"
    ),
    reference: str | None = option(
        "--reference T", "the tokens of the one document that the costs are for; default --cap"
    ),
    overhead: str | None = option(
        "--overhead F[,B]", "what each pass lasts beside its documents, or a forward and a backward"
    ),
    too_long: str | None = option("--too-long drop|split", "leave documents above --cap out, or cut them into pieces"),
    rank: str | None = option("--rank N", "whose config -o writes to a .yaml file; default the slowest rank"),
    algo: str | None = ALGO._replace(help="The algorithm; default: the config's, else 1f1b."),
    problem: ProblemSource,
    target: Target,
    screen: Screen,
) -> None:
    """Pack documents into the microbatches of data-parallel ranks, so that the slowest rank takes least.

    Each document goes to one microbatch of one rank, and its costs are those of one document of --reference tokens
    times its length, and for the part --attention times its square. -o packing.json writes which document goes where,
    -o rank.yaml a config of the slowest rank.
    """
    from pipesched.cli.compare import values_in
    from pipesched.documents.comparison import rank_config

    form = target_format(target, "packing")
    is_config = form is not None and form.name == "config"
    if rank is not None and not is_config:
        raise ConfigError("--rank: has no effect without -o and a .yaml file, which holds the config of one rank")
    counts = {
        "ranks": ranks, "cap": cap, "microbatches": microbatches, "multiple_of": multiple_of, "attention": attention,
        "reference": reference, "overhead": overhead, "too_long": too_long,
    }  # fmt: skip
    given = {key: as_value("", text) for key, text in counts.items() if text is not None}
    if ":" in str(microbatches):
        given["microbatches"] = [*map(parse_value, values_in(str(microbatches), "--microbatches", "8:96:8"))]
    for key in ("ranks", "cap"):
        if key not in given:
            raise ConfigError(f"--{key}: is needed, a whole number of at least 1")
    packing = _packed(lengths, problem, algo, given)
    chosen = None if rank is None else as_value("", rank)
    config = rank_config(packing, chosen) if is_config else None
    with printed_before(lambda: save(packing, "packing", target) if config is None else write_target(config, target)):
        print_result(packing, screen)


def _packed(lengths: str, source: ProblemSource, algo: str | None, given: dict[str, Any]) -> Packing:
    from pipesched.comparing.packing.pack import pack
    from pipesched.file_formats.files import MOST_BYTES, lengths_in
    from pipesched.text.yaml_reader import read_bytes

    if lengths == "-" and source.config == "-":
        raise ConfigError("standard input holds the lengths or the config, not both")
    is_stdin = lengths == "-"
    data = read_stdin(MOST_BYTES + 1) if is_stdin else read_bytes(Path(lengths), MOST_BYTES)
    documents = lengths_in(data, "<stdin>" if is_stdin else lengths)
    config = given_config(source)
    if config.algorithm is None:
        name = default_algorithm(config) if algo is None else algo
    else:
        asked = config.algorithm.or_named(algo, {})
        with asked.located():
            if asked.options:
                raise ConfigError("a packing takes algorithms without options", "algorithm")
        name = asked.name
    with doing(f"packing {len(documents):,} documents"):
        return pack(documents, problem=config.problem, algorithm=name, **given)

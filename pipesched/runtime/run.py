"""The `Runtime`: training steps by any schedule, one rank of a process group for each device.

The `Team` of ranks agrees on the schedule, `programs` makes the list of each. `step` has the `Engine` run that of this
rank: by a `StageRunner` for each stage here, and over `Channels` to other ranks; then `WeightCopies` sums gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

from pipesched.checks import require_callable, require_whole
from pipesched.errors import ConfigError, PipeschedError, RankFailed
from pipesched.runtime.channels import Channels
from pipesched.runtime.devices import CUDA, device_of, name_of_gpu, require_current, transfers_for
from pipesched.runtime.engine import Engine, report_of
from pipesched.runtime.model_source import add_place, batch_norms, require_modules, require_none_in_training
from pipesched.runtime.program import SEND, checked_schedule, programs, warn_left_out
from pipesched.runtime.stage import StageRunner
from pipesched.runtime.team import LostRank, Team, text_of_error
from pipesched.runtime.training_data import loss_weights, require_entries, shapes_in
from pipesched.runtime.weight_copies import Tied, WeightCopies, weights_here


class Runtime:
    """Training steps of a pipeline by a schedule, one device of which is this process.

    It runs every kind of operation: F, B, I, W, overlapped pairs (their F, then their B), recomputation, offload and
    load. It does so on any placement, bidirectional ones with their two copies of the weights included. Losses and
    gradients are those of the model without a pipeline.

    Args:
        source: The path of a document, the document, or a Schedule; the same on every rank.
        modules: The module of every stage that has a home on this rank. Copies of a stage start with the weights of
            the one on the stage's own device.
        loss_fn: Called with the output of the last stage and the target of a microbatch; returns one number.
        group: The process group, rank d of which is device d; default: all processes. A schedule of one device needs
            none.
        tied: The weights that several stages share: of each its name in the module of each stage, as in
            `[{0: "weight", 3: "head.weight"}]`; the same on every rank. All get the sum of their gradients.
        seed: Of the random numbers of all forwards; see `seeded`.
        host: Makes a buffer of so many bytes (a tensor of uint8) in the memory of the host, for offload. Default:
            pinned where there is a GPU.
        on_op: Called with the text of each operation of this rank ("0O1") when it has run.
        collective: Called with the text of each gather, free and reduction of this rank ("0UNSHARD0", "0REDUCE_GRAD"),
            and of each optimizer ("0OPTIMIZER"), where the schedule issues it. It runs them, and sums tied weights at
            REDUCE_TIED, as `tied` does so behind the last of them. Default: they are left out, which a warning says.

    Raises:
        InvalidSchedule: On every rank, before anything is sent, for a schedule that breaks rules or cannot run.
        ConfigError: For modules that are missing, or that cannot be trained in microbatches (BatchNorm), for a group of
            another size, and for a schedule with side work.
        RankFailed: For what another rank raised.
    """

    def __init__(
        self,
        source: object,
        modules: Mapping[int, Any],
        loss_fn: Callable[..., Any],
        group: Any = None,
        *,
        tied: Tied = (),
        seed: int = 0,
        host: Callable[[int], Any] | None = None,
        on_op: Callable[[str], None] | None = None,
        collective: Callable[[str], None] | None = None,
    ) -> None:
        self._team = Team(group)
        try:
            schedule = checked_schedule(source)
            lists = programs(schedule)
        except PipeschedError as wrong:
            self._team.agree("", wrong)
            raise
        problem, rank = schedule.problem, self._team.rank
        self._team.require_size(problem.devices)  # raised without the others: those that are too many may never come
        placement = problem.settled_placement
        stages, error, device = placement.stages_on(rank), None, None
        self._microbatches, self._steps, self._program = problem.microbatches, 0, lists[rank]
        self._shapes: list[Any] = []  # of the inputs of the last step, where they are given
        try:
            self._modules = require_modules(modules, stages, rank)
            self._norms = batch_norms(self._modules, self._program)
            require_none_in_training(self._norms, rank)
            functions = {"loss_fn": loss_fn, "host": host, "on_op": on_op, "collective": collective}
            for key, value in functions.items():
                require_callable(value, key)
            require_whole(seed, "seed")
            weights_here(tied, self._modules)
            device = device_of(self._modules[stages[0]])
            require_current(device)
        except ConfigError as wrong:
            error = wrong
        self._team.agree(sha256(repr((lists, tied)).encode()).hexdigest(), error, device and name_of_gpu(device))
        if rank == 0 and collective is None:
            warn_left_out(schedule)
        transfers = self._transfers = transfers_for(device, host)
        count, own = problem.stages, self._modules
        self._runners = {stage: StageRunner(stage, count, own[stage], loss_fn, seed) for stage in stages}
        with self._team.setting_up():
            self._channels = _channels_for(self._team, lists, device)
            self._mirrors = WeightCopies(self._team, placement, self._modules, tied)
            self._team.meet()
        self._engine = Engine(self._program, count, self._runners, self._channels, transfers, on_op, collective)

    def step(
        self,
        inputs: Sequence[Any] | None = None,
        targets: Sequence[Any] | None = None,
        weights: Sequence[float] | None = None,
    ) -> dict[int, Any]:
        """Run one training step, and return the losses of the microbatches whose last stage ran here.

        The gradient of the sum of weights[m] x loss(m) is added to `.grad` of the model's weights, as autograd adds.
        With two copies of a stage both get the sum of both. For a mean over all tokens, where each loss is the mean
        over those of its microbatch, weights[m] is the part of all tokens that m has.

        Microbatches may have inputs of different shapes, and a step others than the one before.

        Args:
            inputs: For each microbatch a tensor, or a tuple of the arguments of stage 0; None on ranks without it.
            targets: For each microbatch what `loss_fn` takes; None on ranks without the last stage.
            weights: For each microbatch a finite number, the same on every rank with the last stage; default: 1 each.

        Returns:
            The losses by microbatch, detached, and not multiplied by weights.

        Raises:
            ConfigError: For sequences of another length, and weights that are no finite numbers.
            RankFailed: When another rank failed or died; the rank that fails raises its own exception. The connections
                are closed then: this runtime runs no more steps.
        """
        if self._team.is_closed:
            raise RankFailed("the connections are closed, by `close` or by a step that failed; make a new Runtime")
        self._engine.doing = "the begin of the step"
        try:
            self._begin(inputs, targets, weights)
            with self._mirrors.summed():
                losses = self._engine.step(inputs, targets)
            self._team.meet()
        except BaseException as error:
            where = f"{self._engine.doing} on rank {self._team.rank}"
            peer = f" to rank {error.peer}" if isinstance(error, LostRank) else ""
            reason = self._team.stop(
                error,
                f"{where} failed in step {self._steps}: {text_of_error(error)}",
                f"a rank is gone: {where} lost its connection{peer} in step {self._steps}",
            )
            self.close()
            with suppress(Exception):  # a copy may be under way to what is dropped
                self._transfers.finish()
            for runner in self._runners.values():
                runner.held.clear()
            if reason is not None:
                raise RankFailed(reason) from None
            add_place(error, where)
            raise
        self._steps += 1
        return losses

    def _begin(self, inputs: object, targets: object, weights: object) -> None:
        shapes, runners = self._shapes, self._runners.values()
        if any(runner.is_first for runner in runners):
            given = require_entries(inputs, "inputs", self._microbatches)
            self._shapes = [shapes_in(given[microbatch]) for microbatch in range(self._microbatches)]
        if any(runner.is_last for runner in runners):
            require_entries(targets, "targets", self._microbatches)
        counts = None if weights is None else loss_weights(weights, self._microbatches)
        require_none_in_training(self._norms, self._team.rank)
        if self._team.any(shapes != self._shapes):
            self._engine.shapes.clear()
        for runner in runners:
            runner.begin_step(self._steps, counts)

    def close(self) -> None:
        """Close the connections to other ranks, which also ends when nothing refers to the runtime any more."""
        self._channels.close()
        self._mirrors.close()
        self._team.close()

    def report(self) -> dict[str, Any]:
        """Return what was measured in the last step, as an object that JSON holds.

        `operations` lists the operations of this rank in order: start, end and the time `waited` before the start, in
        ms. Each has the bytes of all activations that are alive behind it. `peak_bytes` is their largest, `live_bytes`
        what is left at the end. `freed_fraction` is what O moved of the bytes that its activations held (None without
        O). Times of a GPU are those of its own clock; there, what O moves counts as gone when it begins.
        """
        return report_of(self._team.rank, self._steps - 1, self._engine.measured, self._transfers.milliseconds)


def _channels_for(team: Team, lists: Sequence[Sequence[Any]], device: Any) -> Any:
    pairs = {(rank, step.peer) for rank, program in enumerate(lists) for step in program if step.action == SEND}
    if device.type == CUDA and not team.shares_gpus:
        from pipesched.runtime.cuda import CudaChannels

        return CudaChannels(team, pairs)
    return Channels(team, pairs)

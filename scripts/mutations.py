"""The mutations that the tests must kill: each makes a heuristic or a bound of pipesched worse.

`scripts/mutants.py` applies them. To add one: a text that occurs once in its file, what it becomes, and the tests that
claim to notice.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """A change that makes pipesched worse: `old`, which occurs once in `file`, becomes `new`.

    `file` is a path in pipesched/, and `tests` are paths in tests/, without the .py that all end in.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def path(self) -> str:
        """The path of the file from the root of the repository."""
        return f"pipesched/{self.file}.py"

    @property
    def test_paths(self) -> list[str]:
        """The paths of the test files from the root of the repository."""
        return [f"tests/{name}.py" for name in self.tests]

    def applied(self, text: str) -> str:
        """Return the text of the file with the mutation. Raises ValueError unless `old` occurs once in it."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: its text occurs {text.count(self.old)} times in {self.path}")
        return text.replace(self.old, self.new)


MUTATIONS = [
    Mutation(
        name="bins are filled as if no document were long",
        file="comparing/packing/search",
        old="aimed = self._filled(targets(self.positions, start, own, work, ROUNDS), cap)",
        new="aimed = None",
        tests=("comparing/test_quality_packing",),
    ),
    Mutation(
        name="no document moves",
        file="comparing/packing/search",
        old="for _ in range(steps):",
        new="for _ in range(0 * steps):",
        tests=("comparing/test_quality_packing",),
    ),
    Mutation(
        name="plans of own families are not checked where they are made",
        file="schedulers/own",
        old="checked(schedule_plan(problem, plan))",
        new="pass",
        tests=("schedulers/test_own",),
    ),
    Mutation(
        name="a config loads code",
        file="config/algorithm",
        old="return family(name, loads=False)",
        new="return family(name)",
        tests=("schedulers/test_own", "cli/test_own_families"),
    ),
    Mutation(
        name="microbatches that differ are exchanged for each other",
        file="pipeline/feeding",
        old="if not differs(problem) and placement.second is None:",
        new="if placement.second is None:",
        tests=("pipeline/test_unit_ways", "oracle/test_solve"),
    ),
    Mutation(
        name="every other microbatch adds its longest operation",
        file="pipeline/pass_bounds",
        old="shortest = rows.min(axis=0)",
        new="shortest = rows.max(axis=0)",
        tests=("solver/test_units", "pipeline/test_units"),
    ),
    Mutation(
        name="gradients of keys and values need no memory",
        file="pipeline/capacity",
        old="held = (whole + cached)",
        new="held = whole",
        tests=("pipeline/test_least_capacity", "solver/test_units"),
    ),
    Mutation(
        name="families feed microbatches as they are given alone",
        file="solver/portfolio",
        old="if len(orders_by_rule(case.problem)) > 1:",
        new="if not case.problem:",
        tests=("solver/test_units",),
    ),
    Mutation(
        name="ranks are as full as if nothing were long already",
        file="comparing/packing/search",
        old="rest = np.maximum(level - alone, level / 1000) / int(one[0] or 1)",
        new="rest = np.maximum(level + 0 * alone, level / 1000) / int(one[0] or 1)",
        tests=("comparing/test_quality_packing",),
    ),
    Mutation(
        name="microbatches wait for nothing that overtakes them",
        file="comparing/packing/bound",
        old="sides = [(head, max(1 - forward, 0.0)), (tail, max(1 - backward, 0.0))]",
        new="sides = [(head, 1.0), (tail, 1.0)]",
        tests=("comparing/packing/test_bound",),
    ),
    Mutation(
        name="evict what is needed first",
        file="solver/memory_saving",
        old="evicted = max(held - {own}, key=",
        new="evicted = min(held - {own}, key=",
        tests=("solver/test_quality_memory_saving",),
    ),
    Mutation(
        name="loads not just in time",
        file="solver/memory_saving",
        old='latest = min(latest, self._time(self.backward[activation])) - _lasts(problem, "reload", activation)',
        new="latest = min(latest, self._time(self.backward[activation]))",
        tests=("solver/test_quality_memory_saving",),
    ),
    Mutation(
        name="equal shares of the budget",
        file="solver/portfolio",
        old="weights[number] / counts[number]",
        new="1 / counts[number]",
        tests=("solver/test_quality_shares",),
    ),
    Mutation(
        name="scrambled rule keys",
        file="solver/portfolio",
        old="return range(first, first + count * stages, stages)",
        new="return [key * 7919 % (4 * count * stages) for key in range(first, first + count * stages, stages)]",
        tests=("solver/test_quality_rules",),
    ),
    Mutation(
        name="no objective of windows",
        file="solver/neighbourhood",
        old="self.model.minimize(goal * (len(ends) + 1) * 4 + sum(ends))",
        new="self.model.minimize(0 * goal)",
        tests=("solver/test_quality_neighbourhood",),
    ),
    Mutation(
        name="no noise in justification",
        file="solver/portfolio",
        old="noise = 0 if fruitless < len(every) else longest * random.randint(1, policy.noise)",
        new="noise = 0",
        tests=("solver/test_quality_justify",),
    ),
    Mutation(
        name="loads as early as memory allows",
        file="solver/memory_saving",
        old="while position > earliest and ends[position - 1] > begin:",
        new="while position > earliest:",
        tests=("solver/test_quality_memory_saving",),
    ),
    Mutation(
        name="no spare memory",
        file="solver/memory_saving",
        old="spare = self.rule.spare * max(",
        new="spare = 0 * max(",
        tests=("solver/test_quality_memory_saving",),
    ),
    Mutation(
        name="no looser limits",
        file="solver/policy",
        old="looser: tuple[float | None, ...] = (1.5, 2, 3, None)",
        new="looser: tuple[float | None, ...] = (1,)",
        tests=("solver/test_quality_saving_portfolio",),
    ),
    Mutation(
        name="no device runs ahead",
        file="solver/saving_portfolio",
        old="tuple(count if device < ahead else devices - device for device in range(devices))",
        new="tuple(devices - device for device in range(devices))",
        tests=("solver/test_quality_saving_portfolio",),
    ),
    Mutation(
        name="warm-ups of no device changed",
        file="solver/saving_portfolio",
        old="changed = (*counts[:device], warm_up, *counts[device + 1 :])",
        new="changed = counts",
        tests=("solver/test_quality_saving_portfolio",),
    ),
    Mutation(
        name="no shares of the budget",
        file="solver/portfolio",
        old="return [*shares, whole] if",
        new="return [whole] if",
        tests=("solver/test_quality_portfolio",),
    ),
    Mutation(
        name="one plain rule",
        file="solver/portfolio",
        old='PLAIN_RULES = ("none", "mobility", "descendants")',
        new='PLAIN_RULES = ("none",)',
        tests=("solver/test_quality_portfolio",),
    ),
    Mutation(
        name="shortest tail first",
        file="solver/portfolio",
        old="return [-length for length in map(add",
        new="return [length for length in map(add",
        tests=("solver/test_quality_rules",),
    ),
    Mutation(
        name="slack without heads",
        file="solver/portfolio",
        old="return list(map(add, case.heads, longest_tail(case)))",
        new="return longest_tail(case)",
        tests=("solver/test_quality_rules",),
    ),
    Mutation(
        name="youngest microbatch first",
        file="solver/portfolio",
        old="return range(first, first + count * stages, stages)",
        new="return range(first, first + count * stages, stages)[::-1]",
        tests=("solver/test_quality_rules",),
    ),
    Mutation(
        name="justification within one choice of pools",
        file="solver/portfolio",
        old="every[fruitless % len(every)]",
        new="every[-1]",
        tests=("solver/test_quality_justify",),
    ),
    Mutation(
        name="justification from the first schedule always",
        file="solver/portfolio",
        old="best, least, fruitless = list(candidate.schedule.start_ticks), value, 0",
        new="least, fruitless = value, 0",
        tests=("solver/test_quality_justify",),
    ),
    Mutation(
        name="windows that forget what comes after",
        file="solver/neighbourhood",
        old="self.end(self.number[task]) + self.tails[task] // self.quantum <= end",
        new="self.end(self.number[task]) <= end",
        tests=("solver/test_quality_neighbourhood",),
    ),
    Mutation(
        name="windows without the sum of their devices",
        file="solver/neighbourhood",
        old="goal * (len(ends) + 1) * 4 + sum(ends)",
        new="goal",
        tests=("solver/test_quality_improve",),
    ),
    Mutation(
        name="windows that shrink when they are solved",
        file="solver/neighbourhood",
        old="self.size = min(self.size * self.policy.growth, self.policy.most_size)",
        new="self.size = max(self.size * 0.5, self.policy.least_size)",
        tests=("solver/test_quality_improve",),
    ),
    Mutation(
        name="no windows at pauses",
        file="solver/neighbourhood",
        old="(pauses := _pauses(self.current))",
        new="(pauses := list[int]())",
        tests=("solver/test_quality_improve",),
    ),
    Mutation(
        name="all of an activation kept until W",
        file="pipeline/residences",
        old="return [Residence(gradient, False, gradient, size),",
        new="return [Residence(gradient, False, last, size),",
        tests=("solver/test_quality_neighbourhood",),
    ),
    Mutation(
        name="no bounds by the budget",
        file="solver/bounds",
        old="else _budget_bounds(case)",
        new="else ()",
        tests=("solver/test_quality_bounds",),
    ),
    Mutation(
        name="span bounded on one device",
        file="solver/bounds",
        old="(every or device == 0)",
        new="device == 0",
        tests=("solver/test_quality_bounds",),
    ),
    Mutation(
        name="bounds not rounded up",
        file="pipeline/bounds",
        old="return max(bounds, key=lambda bound: bound.ticks).rounded_up(quantum)",
        new="return max(bounds, key=lambda bound: bound.ticks)",
        tests=("pipeline/test_bounds",),
    ),
    Mutation(
        name="no area of memory",
        file="pipeline/bounds",
        old="ticks = window.area_bound()",
        new="ticks = 0",
        tests=("pipeline/test_bounds",),
    ),
    Mutation(
        name="area with everything recomputed for free",
        file="pipeline/stays",
        old="kept * chunk.again + (size - kept) * (around + chunk.recompute) + end",
        new="kept * chunk.again + end",
        tests=("pipeline/test_bounds",),
    ),
    Mutation(
        name="area without what W retains",
        file="pipeline/stays",
        old="(chunk.retained * chunk.weight if view.with_weight else 0)",
        new="0",
        tests=("pipeline/test_bounds",),
    ),
    Mutation(
        name="capacity edges a microbatch too late",
        file="pipeline/capacity",
        old="behind = 1 + left // size",
        new="behind = 2 + left // size",
        tests=("solver/test_quality_bounds",),
    ),
    Mutation(
        name="capacity edges a microbatch too soon",
        file="pipeline/capacity",
        old="behind = 1 + left // size",
        new="behind = max(left // size, 1)",
        tests=("solver/test_quality_bounds",),
    ),
    Mutation(
        name="Jackson's bound without tails",
        file="core/bounds",
        old="(head, work, -tail)",
        new="(head, work, 0 * tail)",
        tests=("solver/test_quality_bounds",),
    ),
    Mutation(
        name="energy of longer tails alone",
        file="core/bounds",
        old="if job.tail >= tail:",
        new="if job.tail > tail:",
        tests=("core/test_quality_relaxation",),
    ),
    Mutation(
        name="sharpened heads without resources",
        file="core/bounds",
        old="head[task] = max(head[task], *map(head_work_tail, jobs, graph.unit_counts), 0)",
        new="head[task] = max(head[task], 0)",
        tests=("core/test_quality_relaxation",),
    ),
    Mutation(
        name="relaxation without lags",
        file="core/relaxation",
        old="gap = graph.durations[before] + lag",
        new="gap = graph.durations[before]",
        tests=("core/test_quality_relaxation", "core/test_quality_shaving"),
    ),
    Mutation(
        name="relaxation with tasks a tick too long",
        file="core/relaxation",
        old="over = [(task, tick - graph.durations[task]) for task in users]",
        new="over = [(task, tick - graph.durations[task] - 1) for task in users]",
        tests=("core/test_quality_relaxation",),
    ),
    Mutation(
        name="claims of floating point",
        file="core/relaxation",
        old="return total > limit * SCALE",
        new="return True",
        tests=("core/test_relaxation",),
    ),
    Mutation(
        name="few tasks shaved",
        file="core/branching",
        old="MOST_SHAVED = 30",
        new="MOST_SHAVED = 3",
        tests=("core/test_quality_shaving",),
    ),
    Mutation(
        name="the least waited for split first",
        file="core/branching",
        old="task = max(wide, key=lambda task: (len(self.graph.successors[task]), slack(task)))",
        new="task = min(wide, key=lambda task: (len(self.graph.successors[task]), slack(task)))",
        tests=("core/test_quality_shaving",),
    ),
    Mutation(
        name="back and forth by starts",
        file="core/listsched",
        old="late = [-start - time for start, time",
        new="late = [start + 0 * time for start, time",
        tests=("core/test_quality_lists",),
    ),
    Mutation(
        name="shortest sharpened tail first",
        file="core/listsched",
        old="late = [-tail - duration for tail, duration",
        new="late = [tail + duration for tail, duration",
        tests=("core/test_quality_lists",),
    ),
    Mutation(
        name="reversed priority keys",
        file="core/ties",
        old="return [-tail - duration for tail, duration",
        new="return [tail + duration for tail, duration",
        tests=("core/test_quality_listsched",),
    ),
    Mutation(
        name="fewest descendants first",
        file="core/ties",
        old="lambda graph: _most_first(column(descendant_counts(graph)))",
        new="lambda graph: _fixed(column(descendant_counts(graph)))",
        tests=("core/test_quality_listsched",),
    ),
    Mutation(
        name="no task completes a pair",
        file="core/list_kernels",
        old="if self.tie == 3:",
        new="if self.tie == 4:",
        tests=("core/test_quality_listsched",),
    ),
    Mutation(
        name="one job in memory at a time",
        file="core/list_kernels",
        old="if not self.is_safe(other, task):",
        new="if self.begun_count > 0 or not self.is_safe(other, task):",
        tests=("solver/test_quality_rules",),
    ),
    Mutation(
        name="no moves of critical blocks",
        file="schedulers/critical_blocks",
        old="self.random.shuffle(moves)",
        new="moves.clear()",
        tests=("schedulers/test_quality_critical_blocks",),
    ),
    Mutation(
        name="no threshold in the local search",
        file="schedulers/critical_blocks",
        old="least + self.slack * (least - busy) * left // rounds",
        new="least + self.slack * 0 * (left - busy) // rounds",
        tests=("schedulers/test_quality_critical_blocks",),
    ),
    Mutation(
        name="no squeeze",
        file="core/kernels",
        old="needed = ready + length",
        new="needed = max(ready, gap_start[stop - 1]) + length",
        tests=("schedulers/test_quality_squeeze",),
    ),
    Mutation(
        name="no patience of weights",
        file="core/kernels",
        old="now + duration[task] - grace[task] <= coming",
        new="now + duration[task] <= coming",
        tests=("schedulers/test_quality_dispatch",),
    ),
    Mutation(
        name="weights at once",
        file="core/kernels",
        old="or coming_count[here] == 0",
        new="or True",
        tests=("schedulers/test_quality_dispatch",),
    ),
    Mutation(
        name="no forward overtakes",
        file="core/kernels",
        old="while ahead > 0 and place",
        new="while ahead > 1_000_000_000 and place",
        tests=("schedulers/test_quality_dispatch",),
    ),
    Mutation(
        name="backwards always first",
        file="core/kernels",
        old="(input_count[here] == 0 or inputs[base[here]] > rank[forward])",
        new="input_count[here] == 0",
        tests=("schedulers/test_quality_dispatch",),
    ),
    Mutation(
        name="forwards and inputs not in turn",
        file="core/kernels",
        old="and alternate and not after_forward[here]",
        new="and False",
        tests=("schedulers/test_quality_zb_greedy",),
    ),
    Mutation(
        name="weights in every gap",
        file="core/kernels",
        old="2 * (wake - now) >= weight_patience * duration[2 * devices + here]",
        new="wake >= now",
        tests=("schedulers/test_quality_zb_greedy",),
    ),
    Mutation(
        name="no local search in zb-auto",
        file="schedulers/zb_auto",
        old="rounds=400",
        new="rounds=0",
        tests=("schedulers/test_quality_zb_auto",),
    ),
    Mutation(
        name="no handcrafted schedules in zb-auto",
        file="schedulers/zb_auto",
        old="depths = ((1, 1), (2, 2), (1, 0))",
        new="depths = ((1, 0),)",
        tests=("schedulers/test_quality_zb_auto",),
    ),
    Mutation(
        name="the worst trial",
        file="schedulers/trials",
        old="return min(schedules, key=",
        new="return max(schedules, key=",
        tests=("schedulers/test_quality_best_block",),
    ),
    Mutation(
        name="one policy for blocks",
        file="schedulers/best_block",
        old="product(POLICIES, dispatchers)",
        new="product(POLICIES[:1], dispatchers)",
        tests=("schedulers/test_quality_best_block",),
    ),
    Mutation(
        name="no local search on blocks",
        file="schedulers/best_block",
        old="rounds=800",
        new="rounds=0",
        tests=("schedulers/test_quality_best_block",),
    ),
    Mutation(
        name="blocks for unit costs alone",
        file="schedulers/best_block",
        old="designs = [(unit, False), (problem, True), (problem, False), (between, False)]",
        new="designs = [(unit, False)]",
        tests=("schedulers/test_quality_best_block",),
    ),
    Mutation(
        name="one group of all microbatches",
        file="schedulers/interleaved",
        old="return grouped_by(problem, rule, ceil_div(problem.devices, slices),",
        new="return grouped_by(problem, rule, problem.microbatches,",
        tests=("schedulers/test_quality_families",),
    ),
    Mutation(
        name="the longest of all group sizes",
        file="schedulers/interleaved",
        old="best = min(known, key=lambda size: (*known[size], size))",
        new="best = max(known, key=lambda size: (*known[size], size))",
        tests=("schedulers/test_interleaved",),
    ),
    Mutation(
        name="loops repeated one at a time",
        file="hls/modulo",
        old="for period in count(bound)\n        if _are_free",
        new="for period in count(once.latency)\n        if _are_free",
        tests=("hls/test_quality_hls",),
    ),
    Mutation(
        name="units rounded down",
        file="hls/modulo",
        old="ceil_div(cycles, units[number].count) for",
        new="max(cycles // units[number].count, 1) for",
        tests=("hls/test_quality_hls",),
    ),
    Mutation(
        name="no recurrences",
        file="hls/modulo",
        old="return high if graph.is_loop else 1",
        new="return 1",
        tests=("hls/test_quality_hls",),
    ),
    Mutation(
        name="hardware's last operation first",
        file="hls/outcome",
        old='PRIORITY, TIE = "alap", "pairing"',
        new='PRIORITY, TIE = "alap", "reverse"',
        tests=("hls/test_quality_hls",),
    ),
    Mutation(
        name="units without another try",
        file="hls/schedule",
        old="for turn in range(len(order)):",
        new="for turn in range(1):",
        tests=("hls/test_quality_hls",),
    ),
    Mutation(
        name="bounds of CP-SAT too high",
        file="core/cpsat",
        old="return ceil(bound - 1e-6)",
        new="return ceil(bound + 0.5)",
        tests=("solver/test_quality_exact",),
    ),
    Mutation(
        name="alike weights that retain more or less",
        file="solver/model",
        old="same = graph.pools[weight], graph.durations[weight], graph.gives[weight]",
        new="same = graph.pools[weight], graph.durations[weight], 0",
        tests=("solver/test_quality_exact",),
    ),
    Mutation(
        name="weight gradients wait for the gradient to come home",
        file="solver/cuts/chain",
        old="return max(way.there + work[0], way.there + work[1] + way.back)",
        new="return way.there + work[0] + way.back",
        tests=("solver/cuts/test_every_cut",),
    ),
    Mutation(
        name="cuts that are not tried have no bound",
        file="solver/search",
        old="others = [self.others] if self.others else []",
        new="others: list[Bound] = []",
        tests=("solver/cuts/test_solve_over_cuts", "cli/test_solve_over_cuts"),
    ),
    Mutation(
        name="the next cuts are the worst",
        file="solver/cuts/in_order",
        old="best = heappop(queue)",
        new="best = queue.pop()",
        tests=("solver/cuts/test_every_cut",),
    ),
    Mutation(
        name="walks over orders that never meet",
        file="schedulers/feeding/search",
        old="if step and step % (steps // PARTS) == 0:",
        new="if steps < 0:",
        tests=("schedulers/test_quality_orders",),
    ),
    Mutation(
        name="no microbatch moves in its order",
        file="schedulers/feeding/search",
        old="if random.random() < 0.5:",
        new="if random.random() < 2:",
        tests=("schedulers/test_quality_orders",),
    ),
    Mutation(
        name="orders planned anew near the given one",
        file="schedulers/feeding/search",
        old="neighbour([*plans.best], random)",
        new="neighbour([*starts[0]], random)",
        tests=("schedulers/test_quality_orders",),
    ),
]

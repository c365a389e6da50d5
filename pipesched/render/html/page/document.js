// The JSON document of a schedule, and every metric in it. Each time is one division: ticks / scale.

const metrics = s => cached(s, "metrics", () => {
  const { makespan, busy, idle, firsts, lasts, bubble } = totals(s);
  const span = s.step ? stepSpan(s) : max(...lasts.map((end, device) => end - firsts[device]));
  const useful = ranks(s).map(order => order.reduce((sum, t) => sum + (s.useful[kindOf(s, t)] ?? true ? s.duration[t] : 0), 0));
  const ideal = max(...useful), all = useful.reduce((a, b) => a + b), devices = [...busy.keys()];
  const peaks = devices.map(device => memoryOf(s, device).peak), fit = !devices.some(device => excess(s, device));
  const [bound] = boundHere(s, fit);
  const ratio = (part, whole) => (whole ? part / whole : 0), time = ticks => ticks / s.per, size = grains => grains / s.grain;
  return {
    makespan: time(makespan), span: time(span), ideal: time(ideal), bubble,
    bubble_over_ideal: ratio(makespan - ideal, ideal), bubble_span: ratio(span - ideal, span),
    lower_bound: time(bound), gap: ratio(makespan - bound, bound),
    idle: idle.map(time), busy: busy.map(time), peak_memory: peaks.map(size),
    memory: peaks.map((peak, device) => size(peak + s.static[device])),
    imbalance: ratio(s.P * ideal - all, s.P * makespan), utilization: ratio(all, s.P * makespan),
    bottleneck: useful.indexOf(ideal), fits: fit,
    ...(s.problem.rounds > 1 && roundsOf(s)),
    ...Object.fromEntries(heldBy(s).map(sort => [`peak_${sort}`, devices.map(device => size(memoryOf(s, device, sort).peak))])),
  };
});

// The classes of memory that are told apart.
const heldBy = s => [
  ...(s.step || s.sent?.sizes ? ["activations"] : []), ...(s.step ? ["weights", "gradients", "side"] : []), ...(s.sent?.sizes ? ["received"] : []),
];

// Of rounds the mean time from the end of one to that of the next, and the microbatches in flight by it.
function roundsOf(s) {
  const { rounds, microbatches: flight } = s.problem, row = (s.S - 1) * s.U;
  const [first, last] = [0, s.U - flight].map(from => max(...Array.from({ length: flight }, (_, k) => s.ends[row + from + k])));
  const ticks = s.per * (rounds - 1), time = last - first;
  return { round_time: time / ticks, throughput: time ? flight / (time / ticks) : 0 };
}

// The bound of this cut and placement, and which schedules it is about. One that counts the budget is about those within it.
const ownBound = ({ bound }, fit) => (fit && bound.own >= bound.free ? [bound.own, bound.covers] : [bound.free, bound.of_free]);
const boundHere = (s, fit) => (s.edits ? ownBound(s, fit) : [s.bound.ticks, s.bound.covers]);

// The bound that is shown: until the first edit that of a solve, if one made the schedule.
const shownBound = (s, fit) => (s.edits ? ownBound(s, fit) : [s.bound.shown, s.bound.of_shown]);

function timesDocument(s) {
  const entry = t => ({
    op: slotText(s, t), start: s.starts[t] / s.per, end: s.ends[t] / s.per,
    ...(s.lengths && !s.edits && s.there[t] >= 0 && { arrived: s.there[t] / s.per }),
  });
  const transfers = transferLanes(s).flat().sort((a, b) => s.starts[a] - s.starts[b] || s.ends[a] - s.ends[b]);
  const devices = ranks(s), of = (_, device) => transfers.filter(t => deviceOf(s, t) === device).map(entry);
  return { devices: devices.map(order => order.map(entry)), transfers: lanePairs(s) ? devices.map(of) : [] };
}

// The microbatches by the start of their first forward on stage 0; where they enter at both ends, of one end, then the other.
const feeding = s => [...Array(s.M).keys()].map(m => m * s.n).sort((a, b) => turns(s, a) - turns(s, b)
  || s.starts[a] - s.starts[b] || placeOf(s, a) - placeOf(s, b)).map(t => microbatchOf(s, t));

function scheduleDocument(s) {
  const found = metrics(s), { devices, transfers } = timesDocument(s);
  const status = totals(s).makespan === ownBound(s, found.fits)[0] ? "optimal" : "heuristic";
  return {
    format: "pipesched.schedule", version: s.sent ? 3 : s.fed || s.step ? 2 : 1, algorithm: s.algorithm, status: s.edits ? status : s.status,
    problem: s.problem, ...(s.edits && s.fed ? { order: feeding(s) } : s.fed), metrics: { ...found, ...(s.step && { step: stepMetrics(s) }) }, covers: boundHere(s, found.fits)[1], devices,
    ...(transfers.length && { transfers }), ...(s.step && { network: networkDocument(s) }), ...(s.sent && { queue: queueDocument(s) }),
    ...(s.waits.length && { waits: s.waits.map(([before, after]) => [opText(s, after), opText(s, before)]) }),
    ...(!s.edits && s.solver && { solver: s.solver }),
  };
}

// Memory over time, then the reasons of idle time.

// The activation memory of devices over time, in grains.

// Times and, from each on, the level: what is freed at a time counts before what is taken then.
// Of all that a device holds, or of one class.
const memoryOf = (s, device, sort = "") => cached(s, `memory${device}${sort}`, () => {
  const changes = sort === "activations" ? [] : stayChanges(s, device, sort), times = [0], levels = [0];
  const tasks = sort && sort !== "activations" ? [] : s.orders.flatMap((order, on) => (on === device ? order : on < s.P ? [] : order.filter(t => deviceOf(s, t) === device)));
  for (const t of tasks) changes.push([s.starts[t], s.takes[t]], [s.ends[t], -s.gives[t]]);
  changes.sort((a, b) => a[0] - b[0]);
  let level = 0;
  for (const [time, change] of changes.filter(one => one[1])) {
    level += change;
    if (times[times.length - 1] < time) times.push(time);
    levels[times.length - 1] = level;
  }
  return { times, levels, peak: levels.reduce((a, b) => max(a, b)) };
});

// How much the memory of a device exceeds its budget, at least 0.
const excess = (s, device) => (s.capacity[device] === null ? 0 : max(memoryOf(s, device).peak - s.capacity[device], 0));

// How many of `count` things, in order, come before the first for which `isBehind` holds.
function countBefore(count, isBehind) {
  let low = 0, high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBehind(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
const lastAtMost = (values, value) => countBefore(values.length, i => values[i] > value) - 1;

// Whether a task that takes memory fits at an earlier time, all else at its own, within the budget of its device.
function fits(s, t, time) {
  const device = deviceOf(s, t), { times, levels } = memoryOf(s, device), start = s.starts[t], end = min(time + s.duration[t], start);
  const below = (from, to, more) => {
    let i = max(lastAtMost(times, from), 0);
    while (times[i] < to && levels[i] + more <= s.capacity[device]) i++;
    return from >= to || !(times[i] < to);
  };
  return s.capacity[device] === null || (below(time, end, s.takes[t]) && below(end, start, s.takes[t] - s.gives[t]));
}

// Why a schedule takes as long as it does: docs/explanation/idle-time.md has the rules, pipesched.core the originals.

const FREE = -1, BY_ORDER = -2; // instead of the arc that holds a task back

// What holds each task back, slack, and the critical path.
const reasons = s => cached(s, "reasons", () => {
  const { size, before, lag, isInput, first, duration, starts, ends, sequence } = s, { begin, end } = totals(s);
  const previous = untold(size), rank = new Int32Array(size);
  let count = 0;
  for (const order of s.orders) order.forEach((t, i) => { rank[t] = count++; if (i) previous[t] = order[i - 1]; });
  const eachInto = (t, use) => { // use(task before, lag, arc)
    for (let arc = first[t]; arc < first[t + 1]; arc++) use(before[arc], lag[arc], arc);
    if (previous[t] >= 0) use(previous[t], 0, BY_ORDER);
  };

  // Of several that reach a task: inputs first, then the longer lag, then the first in the orders.
  const allowed = new Float64Array(size).fill(begin), tight = new Int32Array(size).fill(FREE);
  const sourceOf = t => (tight[t] === BY_ORDER ? previous[t] : before[tight[t]]), isData = arc => arc >= 0 && isInput[arc] > 0;
  const lagOf = arc => (arc < 0 ? 0 : lag[arc]);
  for (const t of sequence) {
    eachInto(t, (from, gap, arc) => {
      const more = ends[from] + gap - allowed[t];
      if (more < 0 || (!more && tight[t] === FREE)) return;
      const better = more || isData(arc) - isData(tight[t]) || gap - lagOf(tight[t]) || rank[sourceOf(t)] - rank[from];
      allowed[t] += more;
      if (better > 0) tight[t] = arc;
    });
  }

  const latest = new Float64Array(size), slack = new Float64Array(size).fill(-1);
  for (const t of sequence) latest[t] = max(end, ends[t]);
  for (let i = sequence.length - 1; i >= 0; i--) {
    const t = sequence[i];
    eachInto(t, (from, gap) => { latest[from] = min(latest[from], latest[t] - duration[t] - gap); });
    slack[t] = latest[t] - ends[t];
  }

  const heldBy = t => (tight[t] === FREE ? -1 : sourceOf(t)), path = [];
  const last = [...ranks(s), ...networkLanes(s)].flatMap(order => order.find(t => ends[t] === end) ?? [])[0] ?? -1;
  for (let t = last; t >= 0; t = heldBy(t)) path.unshift(t);
  return {
    allowed, slack, path, last, heldBy,
    queuedBehind: t => (tight[t] === FREE || isData(tight[t]) ? -1 : sourceOf(t)),
    heldLag: t => lagOf(tight[t]),
    isHeldByOrder: t => tight[t] !== FREE && !isData(tight[t]),
    // of the critical tasks, so that each comes behind what it waits for: what joins them
    critical: Array.from(sequence).filter(t => slack[t] === 0),
    tightArcs(t) { // [task before, boundary between devices or -1]
      const found = [];
      eachInto(t, (from, gap, arc) => {
        if (slack[from] === 0 && ends[from] + gap === allowed[t]) found.push([from, arc < 0 ? -1 : s.boundary[arc]]);
      });
      return found;
    },
  };
});

// The same orders at their earliest times: sensitivities and moves are about those.
const early = s => cached(s, "early", () => {
  const times = s.isLate ? earliest(s) : s;
  return times === s || times.deadlock ? s : timed(s, s.orders, times);
});

// All idle time by device and start: {device, start, end, idle (a class), culprit, waiting (-1 behind the last slot)}.
const gapsOf = s => cached(s, "gaps", () => {
  const { begin, end } = totals(s), { last } = reasons(s), found = [];
  for (let device = 0; device < s.P; device++) {
    const parts = (from, to) => (from >= to ? [] : s.sent ? freeParts(s, device, from, to) : [[from, to, -1]]); // which a message may hold
    const order = s.orders[device], candidates = candidatesOf(s, order, begin), own = [];
    const put = (waiting, walked) => (from, to, idle, culprit) => {
      if (from < to) own.push({ device, start: from, end: to, idle: idle || walked, culprit, waiting });
    };
    let clock = begin;
    order.forEach((t, i) => {
      for (const [from, to, message] of parts(clock, s.starts[t])) {
        const note = put(t, i ? "wait" : "warm_up");
        if (message < 0) gapBefore(s, t, [from, to], candidates[i + 1], note);
        else note(from, to, "queue", message);
      }
      clock = max(clock, s.ends[t]);
    });
    for (const [from, to, message] of parts(clock, end)) {
      if (message < 0) walkBack(s, last, end, [from, to], true, put(-1, "drain"));
      else put(-1, "drain")(from, to, "queue", message);
    }
    own.sort((a, b) => a.start - b.start);
    for (const gap of own) {
      const held = found[found.length - 1];
      const same = held && ["device", "idle", "culprit", "waiting"].every(key => held[key] === gap[key]);
      if (same && held.end === gap.start) held.end = gap.end;
      else found.push(gap);
    }
  }
  return found;
});

// For each position, of the slots from there on, the least ready one that takes memory and the one that takes none.
function candidatesOf(s, order, begin) {
  const best = [null, null], found = [[]];
  for (let at = order.length - 1; at >= 0; at--) {
    const t = order[at], sort = s.takes[t] ? 0 : 1;
    let ready = begin;
    for (let arc = s.first[t]; arc < s.first[t + 1]; arc++) {
      if (s.isInput[arc]) ready = max(ready, s.ends[s.before[arc]] + s.lag[arc]);
    }
    if (!best[sort] || ready <= best[sort].ready) best[sort] = { ready, t, at };
    found.push(best.filter(Boolean));
  }
  return found.reverse();
}

function gapBefore(s, t, [start, end], candidates, put) {
  const allowed = max(reasons(s).allowed[t], start);
  lateTime(s, t, (from, to, idle) => put(max(from, start), min(to, end), idle, t));
  let left = min(allowed, end);
  const due = candidates.map(one => ({ ...one, from: max(start, one.ready) })).filter(one => one.from < left);
  for (const one of due) one.idle = !s.takes[one.t] || !metrics(s).fits || fits(s, one.t, one.from) ? "order" : "memory";
  due.sort((a, b) => a.idle.length - b.idle.length || a.ready - b.ready || a.at - b.at);
  for (const { from, idle, t: culprit } of due) {
    put(from, left, idle, culprit);
    left = min(left, from);
  }
  if (start < left) walkBack(s, t, reasons(s).allowed[t], [start, left], false, put);
}

// The time by which a task is late: of a measured one its message up to when that was there, and the runtime.
function lateTime(s, t, put) {
  const from = reasons(s).allowed[t], to = s.starts[t], there = min(max(s.there[t], from), to);
  put(from, s.lengths ? there : to, s.lengths ? "message" : "late");
  if (s.lengths) put(there, to, "runtime");
}

// What the walk back from a task finds between two times; `time` is where it stands, `own` whether the task's time counts.
function walkBack(s, t, time, [start, end], own, put) {
  const { allowed, heldBy, heldLag } = reasons(s);
  const within = (from, to, idle, culprit) => put(max(from, start), min(to, end), idle, culprit);
  while (time > start) {
    if (own) {
      within(s.starts[t], time, ofDevice(s, t) ? null : "transfer", t);
      lateTime(s, t, (from, to, idle) => within(from, to, idle, t));
      time = allowed[t];
    }
    let before = heldBy(t), lag = heldLag(t);
    if (own && isMessage(s, t)) { // from when it is made on it waits behind another
      if (before >= 0) within(madeAt(s, t), time, "queue", t);
      [before, lag, time] = [s.sent.source[t - s.sent.first], 0, min(time, madeAt(s, t))];
    }
    if (before < 0) return;
    within(time - lag, time, "transfer", before);
    [time, t, own] = [time - lag, before, true];
  }
}

function idleByClass(s, classes) {
  const rows = Array.from({ length: s.P }, () => Object.fromEntries(classes.map(name => [name, 0])));
  for (const gap of gapsOf(s)) rows[gap.device][gap.idle] += gap.end - gap.start;
  return rows;
}

// What a task costs: [name "3 F", what it lasts]. A pair has that of its parts, or its own where the config gives one; both
// ends of REDUCE_TIED have one cost.
const costsOf = (s, t) => (isMessage(s, t) ? [] : s.pairs.has(t) && s.overlap ? [[`${stageOf(s, t)} overlap`, entryOf(s, s.overlap[stageOf(s, t)], t)]]
  : partsOf(s, t).map(part => [`${letterOf(s, part) === "REDUCE_TIED" ? 0 : stageOf(s, part)} ${letterOf(s, part)}`, part < s.passes ? entryOf(s, s.rows[rowOf(s, part)][0], part) : s.duration[part]]));

// The lesser (sign 1) or the greater (-1) of each two counts, in the first; a copy of the second where there is no first.
function extreme(held, other, sign) {
  if (!held) return other.slice();
  for (let i = 0; i < held.length; i++) if ((held[i] - other[i]) * sign > 0) held[i] = other[i];
  return held;
}

// How often each cost, and each latency, stands on a longest path: at least (a unit less gains that) and at most.
const sensitivities = s => cached(s, "sensitivities", () => {
  const { critical, tightArcs, allowed } = reasons(s), { begin, end } = totals(s), columns = new Map();
  const rows = s.p2p.map((cost, boundary) => ({ boundary, cost }));
  for (const t of s.orders.flat()) {
    for (const [name, cost] of costsOf(s, t)) {
      const [stage, kind] = name.split(" ");
      if (!columns.has(name)) columns.set(name, rows.push({ stage: +stage, kind }) - 1);
      rows[columns.get(name)].cost ||= cost; // where operations of a kind differ, of one that lasts
    }
  }
  const uses = new Int32Array(s.size), counts = new Map(); // counts of a task: [least, most] until it
  for (const t of critical) for (const [before] of tightArcs(t)) uses[before]++;
  let low = null, high = null;
  for (const t of critical) {
    let [least, most] = allowed[t] === begin ? [0, 1].map(() => new Int32Array(rows.length)) : [];
    for (const [before, boundary] of tightArcs(t)) {
      const ways = counts.get(before).map(column => column.slice());
      if (boundary >= 0) for (const column of ways) column[boundary]++;
      [least, most] = [extreme(least, ways[0], 1), extreme(most, ways[1], -1)];
      if (!--uses[before]) counts.delete(before);
    }
    for (const [name, cost] of costsOf(s, t)) { // what costs nothing cannot cost less
      if (cost) least[columns.get(name)]++;
      most[columns.get(name)]++;
    }
    const boundary = isMessage(s, t) ? crossedBy(s, t) : -1;
    if (boundary >= 0) [least[boundary], most[boundary]] = [least[boundary] + (s.duration[t] > 0), most[boundary] + 1];
    counts.set(t, [least, most]);
    if (s.ends[t] === end && (ofDevice(s, t) || isNetwork(s, t))) [low, high] = [extreme(low, least, 1), extreme(high, most, -1)];
  }
  return rows.map((row, i) => ({ ...row, faster: low && row.cost ? low[i] : 0, slower: high ? high[i] : 0 }));
});

// Why a schedule takes as long as it does: docs/explanation/idle-time.md has the rules, pipesched.core the originals.

const CLASSES = ["warm_up", "wait", "transfer", "order", "memory", "drain", "late"];
const FREE = -1, BY_ORDER = -2; // instead of the arc that holds a task back

// What holds each task back, the critical path and slack. `times` are those of earliest(), or later ones.
function analysis(graph, orders, times) {
  const { size, before, lag, isInput, first, duration } = graph;
  const { starts, ends, sequence } = times;
  const previous = new Int32Array(size).fill(-1), rank = new Int32Array(size), place = placesOf(graph, orders);
  let count = 0;
  for (const order of orders) {
    order.forEach((task, at) => { rank[task] = count++; if (at) previous[task] = order[at - 1]; });
  }
  const { makespan, begin, end } = measures(graph, orders, times);
  const allowed = new Float64Array(size).fill(begin), tight = new Int32Array(size).fill(FREE);
  for (const task of sequence) {
    let best = begin;
    if (previous[task] >= 0) best = Math.max(best, ends[previous[task]]);
    for (let arc = first[task]; arc < first[task + 1]; arc++) best = Math.max(best, ends[before[arc]] + lag[arc]);
    allowed[task] = best;
    if (best > begin) tight[task] = tightest(task, best);
  }

  // Of several that reach: inputs first, then the longer lag, then the first in the orders.
  function tightest(task, time) {
    let found = FREE, key = null;
    const offer = (arc, input, length, from) => {
      const mine = [input ? 0 : 1, -length, rank[from]];
      const at = key === null ? 0 : mine.findIndex((value, entry) => value !== key[entry]);
      if (key === null || (at >= 0 && mine[at] < key[at])) { found = arc; key = mine; }
    };
    for (let arc = first[task]; arc < first[task + 1]; arc++) {
      if (ends[before[arc]] + lag[arc] === time) offer(arc, isInput[arc], lag[arc], before[arc]);
    }
    if (found !== FREE && key[0] === 0) return found;
    if (previous[task] >= 0 && ends[previous[task]] === time) offer(BY_ORDER, 0, 0, previous[task]);
    return found;
  }

  const slack = new Float64Array(size).fill(-1), latest = new Float64Array(size);
  for (const task of sequence) latest[task] = Math.max(end, ends[task]);
  for (let at = sequence.length - 1; at >= 0; at--) {
    const task = sequence[at], start = latest[task] - duration[task];
    if (previous[task] >= 0) latest[previous[task]] = Math.min(latest[previous[task]], start);
    for (let arc = first[task]; arc < first[task + 1]; arc++) {
      latest[before[arc]] = Math.min(latest[before[arc]], start - lag[arc]);
    }
  }
  for (const task of sequence) slack[task] = latest[task] - ends[task];

  const heldBy = (task) => (tight[task] === FREE ? -1 : tight[task] === BY_ORDER ? previous[task] : before[tight[task]]);
  const lastOf = orders.slice(0, graph.devices).map((order) => order.findIndex((task) => ends[task] === end));
  const device = lastOf.findIndex((at) => at >= 0);
  const last = device < 0 ? -1 : orders[device][lastOf[device]];
  const path = [];
  for (let task = last; task >= 0; task = heldBy(task)) path.push(task);
  path.reverse();
  return {
    starts, ends, sequence, makespan, begin, end, allowed, tight, slack, path, last, heldBy, place,
    onPath: new Set(path),
    heldLag: (task) => (tight[task] >= 0 ? lag[tight[task]] : 0),
    isHeldByOrder: (task) => tight[task] === BY_ORDER || (tight[task] >= 0 && !isInput[tight[task]]),
    eachArc(task, use) { // (task before, lag, boundary between devices or -1)
      for (let arc = first[task]; arc < first[task + 1]; arc++) use(before[arc], lag[arc], graph.boundary[arc]);
      if (previous[task] >= 0) use(previous[task], 0, -1);
    },
  };
}

// All idle time by device and start: {device, start, end, idle (a class), culprit, waiting (-1 behind the last slot)}.
function idleGaps(graph, orders, known) {
  const fits = memoryFit(graph, orders, known), found = [];
  for (let device = 0; device < graph.devices; device++) {
    const order = orders[device], candidates = candidatesOf(graph, order, known), own = [];
    const put = (waiting, walked) => (start, end, idle, culprit) => {
      if (start < end) own.push({ device, start, end, idle: idle || walked, culprit, waiting });
    };
    let clock = known.begin;
    order.forEach((task, at) => {
      const start = known.starts[task];
      if (start > clock) {
        gapBefore(graph, known, task, clock, start, candidates[at + 1], fits, put(task, at ? "wait" : "warm_up"));
      }
      clock = Math.max(clock, known.ends[task]);
    });
    if (clock < known.end) walkBack(graph, known, known.last, known.end, clock, known.end, true, put(-1, "drain"));
    own.sort((a, b) => a.start - b.start);
    for (const gap of own) {
      const held = found[found.length - 1];
      const same = held && ["device", "idle", "culprit", "waiting"].every((key) => held[key] === gap[key]);
      if (same && held.end === gap.start) held.end = gap.end;
      else found.push(gap);
    }
  }
  return found;
}

// For each position, of the slots from there on, the least ready one that takes memory and the one that takes none.
function candidatesOf(graph, order, known) {
  const best = [null, null], found = new Array(order.length + 1);
  found[order.length] = [null, null];
  for (let at = order.length - 1; at >= 0; at--) {
    const task = order[at], sort = graph.takes[task] ? 0 : 1;
    let ready = known.begin;
    for (let arc = graph.first[task]; arc < graph.first[task + 1]; arc++) {
      if (graph.isInput[arc]) ready = Math.max(ready, known.ends[graph.before[arc]] + graph.lag[arc]);
    }
    if (!best[sort] || ready <= best[sort].ready) best[sort] = { ready, task, at };
    found[at] = best.slice();
  }
  return found;
}

function gapBefore(graph, known, task, start, end, candidates, fits, put) {
  const allowed = Math.max(known.allowed[task], start);
  put(allowed, end, "late", task);
  let left = Math.min(allowed, end);
  const early = candidates.filter((one) => one && Math.max(start, one.ready) < left);
  const fitting = early.filter((one) => !graph.takes[one.task] || fits(one.task, Math.max(start, one.ready)));
  fitting.sort((a, b) => a.ready - b.ready || a.at - b.at);
  if (fitting.length) {
    const begin = Math.max(start, fitting[0].ready);
    put(begin, left, "order", fitting[0].task);
    left = begin;
  }
  for (const one of early) {
    const begin = Math.max(start, one.ready);
    if (fitting.includes(one) || begin >= left) continue;
    put(begin, left, "memory", one.task);
    left = begin;
  }
  if (start < left) walkBack(graph, known, task, known.allowed[task], start, left, false, put);
}

// What the walk back from a task finds between two times; `time` is where it stands, `own` whether its time counts.
function walkBack(graph, known, from, from_time, start, end, counts, put) {
  const within = (first, last, idle, culprit) => put(Math.max(first, start), Math.min(last, end), idle, culprit);
  let task = from, time = from_time, own = counts;
  while (time > start && task >= 0) {
    if (own) {
      within(known.starts[task], time, isDevice(graph, graph.machine[task]) ? null : "transfer", task);
      within(known.allowed[task], known.starts[task], "late", task);
      time = known.allowed[task];
    }
    const before = known.heldBy(task);
    if (before < 0) return;
    const left = time - known.heldLag(task);
    within(left, time, "transfer", before);
    [time, task, own] = [left, before, true];
  }
}

function idleByClass(graph, gaps) {
  const rows = Array.from({ length: graph.devices }, () => Object.fromEntries(CLASSES.map((name) => [name, 0])));
  for (const gap of gaps) rows[gap.device][gap.idle] += gap.end - gap.start;
  return rows;
}

// The cost names of a task, [stage, kind]: a pair has those of its parts, or its own where the config gives one.
function costsOf(graph, task) {
  const row = (number) => [stageOf(graph, number), kindOf(graph, number).letter];
  const backward = graph.pairs.get(task);
  if (backward === undefined) return [row(task)];
  return graph.data.overlap === null ? [row(task), row(backward)] : [[stageOf(graph, task), "overlap"]];
}

// How often each cost, and each latency, stands on a longest path: at least (a unit less gains that) and at most.
// `known` must be of the earliest times.
function sensitivities(graph, orders, known) {
  const columns = new Map(), rows = [];
  const column = (key, row) => {
    if (!columns.has(key)) { columns.set(key, rows.length); rows.push(row); }
    return columns.get(key);
  };
  graph.data.p2p.forEach((hop, boundary) => column(`p2p${boundary}`, { boundary, cost: hop }));
  const inColumns = (task) => costsOf(graph, task).map(([stage, kind]) => column(`${stage}${kind}`, {
    stage, kind,
    cost: kind === "overlap" ? ofStage(graph.data.overlap, stage) : ofStage(kindOf(graph, graph.letters.indexOf(kind) * graph.stages * graph.microbatches).duration, stage),
  }));
  const ofTask = orders.map((order) => order.map((task) => [task, inColumns(task)])).flat();
  const columnOf = new Map(ofTask), width = rows.length;
  const critical = Array.from(known.sequence).filter((task) => known.slack[task] === 0);
  const uses = new Map(critical.map((task) => [task, 0]));
  const tightArcs = (task) => {
    const arcs = [];
    known.eachArc(task, (before, lag, boundary) => {
      if (uses.has(before) && known.ends[before] + lag === known.allowed[task]) arcs.push([before, boundary]);
    });
    return arcs;
  };
  for (const task of critical) for (const [before] of tightArcs(task)) uses.set(before, uses.get(before) + 1);
  const least = new Map(), most = new Map();
  let low = null, high = null;
  for (const task of critical) {
    const arcs = tightArcs(task), isFirst = known.allowed[task] === known.begin;
    let down = null, up = null;
    for (const [before, boundary] of arcs) {
      const a = least.get(before).slice(), b = most.get(before).slice();
      if (boundary >= 0) { a[boundary]++; b[boundary]++; }
      for (let at = 0; down && at < width; at++) {
        if (down[at] < a[at]) a[at] = down[at];
        if (up[at] > b[at]) b[at] = up[at];
      }
      [down, up] = [a, b];
    }
    if (!up) up = new Int32Array(width);
    if (!down || isFirst) down = new Int32Array(width);
    for (const at of columnOf.get(task)) { down[at]++; up[at]++; }
    least.set(task, down);
    most.set(task, up);
    if (known.ends[task] === known.end && isDevice(graph, graph.machine[task])) {
      low = low ? low.map((value, at) => Math.min(value, down[at])) : down.slice();
      high = high ? high.map((value, at) => Math.max(value, up[at])) : up.slice();
    }
    for (const [before] of arcs) {
      uses.set(before, uses.get(before) - 1);
      if (!uses.get(before)) { least.delete(before); most.delete(before); }
    }
  }
  return rows.map((row, at) => ({ ...row, faster: low && row.cost ? low[at] : 0, slower: high ? high[at] : 0 }));
}

// The step beside its passes, `s.step` as step_data.py says it: operations, numbered behind the passes, on devices and on
// network lanes, which are the last P orders. A move keeps each lane's order; a reduction that follows the rule stands
// behind the last backward that it needs, whatever the order.

const ofStep = (s, number) => (number < s.passes ? null : s.others[number - s.passes]); // or of a message
const letterOf = (s, number) => s.signs[kindOf(s, number)];
const isOfSide = letter => letter === "E" || letter === "G";
const firstNetwork = s => s.orders.length - (s.step ? s.P : 0); // among the orders: behind devices, transfers and messages
const lanePairs = s => (firstNetwork(s) - s.P - (s.sent ? s.sent.lines.length : 0)) / 2;
const transferLanes = s => s.orders.slice(s.P, s.P + 2 * lanePairs(s));
const networkLanes = s => s.orders.slice(firstNetwork(s));
const isMessage = (s, t) => Boolean(s.sent) && t >= s.sent.first;
const isNetwork = (s, t) => s.machine[t] >= firstNetwork(s);

// Calls use(before, after, lag, boundary, 1) for each precedence of the step.
function eachStepArc({ step, task, present }, use) {
  for (const [from, to, first, behind, lag] of step ? step.arcs : []) {
    for (let a = from; a < to; a++) for (let b = first; b < behind; b++) if (present[a] && present[b]) use(task[a], task[b], lag, -1, 1);
  }
}

// The slot behind whose end an entry of a program is issued, -1 where it is issued at once.
function afterOf(s, [number, after, byRule]) {
  if (!byRule) return after;
  let last = -1;
  for (let arc = s.first[number]; arc < s.first[number + 1]; arc++) {
    const t = s.before[arc];
    if (t < s.passes && (last < 0 || placeOf(s, t) > placeOf(s, last))) last = t;
  }
  return last;
}

// Why no operation moves where messages queue: another order of operations has another order of messages.
const fixed = s => (s.sent ? `messages queue by ${s.sent.queue}, and a move would change the order in which they are issued` : null);

// Why a move of a slot that may stand there is refused for the program of its lane, null where it is not.
function programRefusal(s, t, to) {
  const from = placeOf(s, t), device = s.machine[t];
  if (!s.step || from === to) return null;
  const next = { ...s, orders: moved(s.orders, device, from, to), cache: {} }, { programs, sharded } = s.step;
  const stages = one => one.orders[device].map(slot => slot < s.passes && String(partsOf(s, slot).map(part => stageOf(s, part)))).join();
  if (sharded && stages(s) !== stages(next)) return `it would change the order of stages, by which network lane ${device} gathers weights`;
  let last = -1, before = -1;
  for (const entry of programs[device]) {
    const [number, , byRule] = entry, old = afterOf(s, entry), after = afterOf(next, entry);
    if (after < 0) continue;
    if (sharded && (byRule ? after !== old : placeOf(s, after) !== placeOf(next, after))) {
      return `it would change the program of network lane ${device}: ${opText(s, number)} stands behind a slot that would move`;
    }
    const rank = 3 * placeOf(next, after) + ["REDUCE_GRAD", "RESHARD", "UNSHARD"].indexOf(letterOf(s, number)); // at one slot in this order
    if (rank < last) return `network lane ${device} keeps its order: ${opText(s, number)} would be issued before ${opText(s, before)}`;
    [last, before] = [rank, number];
  }
  return null;
}

const freedAt = (s, [number, after]) => max(s.ends[ofStep(s, number)[7]], after < 0 ? 0 : s.ends[s.task[after]]);

// The changes [time, grains] of what a device holds beside activations, of one class if it is named.
function stayChanges(s, device, sort) {
  const time = (end, tasks) => (end ? max(...tasks.map(t => s.ends[s.task[t]])) : min(...tasks.map(t => s.starts[s.task[t]])));
  const received = s.sent?.sizes && (!sort || sort === "received") ? bufferChanges(s, device) : [];
  return (s.step ? s.step.stays : []).filter(stay => stay[0] === device && (!sort || stay[1] === sort))
    .flatMap(([, , grains, begin, first, finish, last]) => [[time(begin, first), grains], [time(finish, last), -grains]]).concat(received);
}

function networkDocument(s) {
  return s.step.programs.map(program => program.map(entry => {
    const [number] = entry, after = afterOf(s, entry), freed = ofStep(s, number).length > 7 ? freedAt(s, [number, after]) : -1;
    const [start, end] = freed < 0 ? [s.starts[number], s.ends[number]] : [freed, freed];
    return { op: opText(s, number), start: start / s.per, end: end / s.per, after: after < 0 ? null : slotText(s, s.task[after]) };
  }));
}

const PARTS = { gather: ["UNSHARD"], reduce: ["REDUCE_GRAD"], tied: ["REDUCE_TIED"], optimizer: ["OPTIMIZER"] };

// What the step costs beside its passes: makespans without the durations of some of it.
function stepMetrics(s) {
  const makespan = totals(s).makespan, numbers = s.step.beside.map((_, i) => s.passes + i);
  const isOf = names => number => names.some(name => PARTS[name].includes(letterOf(s, number)));
  const without = (...names) => {
    const picked = numbers.filter(isOf(names)).filter(number => s.duration[number]), duration = s.duration.slice();
    for (const number of picked) duration[number] = 0;
    return picked.length ? max(...earliest({ ...s, duration }).ends) : makespan;
  };
  const unit = ticks => ticks / s.per, lasting = (rows, name) => rows.map(row => unit(row.filter(isOf([name])).reduce((sum, t) => sum + s.duration[t], 0)));
  const { slack } = reasons(s), rows = name => (name === "optimizer" ? ranks(s) : networkLanes(s));
  const exposed = networkLanes(s).flat().filter(t => s.duration[t] && !slack[t]).map(t => opText(s, t));
  return {
    pipeline: unit(without(...Object.keys(PARTS))), network: unit(makespan - without("gather", "reduce", "tied")),
    ...Object.fromEntries(Object.keys(PARTS).map(name => [name, { time: lasting(rows(name), name), exposed: unit(makespan - without(name)) }])),
    exposed,
  };
}

// The time after which the next step may follow: over devices, lanes and stages; gathers at heads as late as they may be.
function stepSpan(s) {
  const starts = s.starts.slice(), ends = s.ends.slice(), users = usersOf(s), stages = Array.from({ length: s.S }, () => []);
  networkLanes(s).forEach((lane, device) => {
    const issued = new Map(s.step.programs[device]), isHead = t => letterOf(s, t) === "UNSHARD" && issued.get(t) < 0;
    let count = lane.findIndex(t => !isHead(t));
    if (count < 0) count = lane.length;
    let limit = count < lane.length ? s.starts[lane[count]] : Infinity;
    for (let i = count - 1; i >= 0; i--) {
      for (let arc = users.first[lane[i]]; arc < users.first[lane[i] + 1]; arc++) limit = min(limit, s.starts[users.before[arc]] - users.lag[arc]);
      ends[lane[i]] = limit = limit === Infinity ? s.ends[lane[i]] : limit;
      starts[lane[i]] = limit -= s.duration[lane[i]];
    }
  });
  for (const t of [...ranks(s), ...networkLanes(s)].flat().flatMap(one => partsOf(s, one))) {
    if (!["O", "L", "E", "G", "RESHARD"].includes(letterOf(s, t))) stages[stageOf(s, t)].push(s.task[t]);
  }
  const rows = [...ranks(s), ...networkLanes(s), ...stages].filter(row => row.length);
  return max(...rows.map(row => max(...row.map(t => ends[t])) - min(...row.map(t => starts[t]))));
}

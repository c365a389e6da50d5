// Times of orders, then single changes of an order.

// From orders to times: every task as early as its order and its inputs allow, as pipesched.core.timing has it.

// Returns starts and ends by task (-1: not run), the tasks in an order in which each comes behind what it waits for,
// and the cycle [[task, machine, awaited task]] in which the orders hang, null if they run.
function earliest(s, orders = s.orders) {
  const { first, before, lag, duration, size } = s, [starts, ends] = [0, 1].map(() => new Float64Array(size).fill(-1));
  const sequence = new Int32Array(size), at = new Int32Array(orders.length), clock = new Float64Array(orders.length);
  const sleeper = untold(size), nextSleeper = untold(orders.length);
  const awake = [...orders.keys()];
  let done = 0;
  while (awake.length) {
    const on = awake.pop(), order = orders[on];
    let now = clock[on], place = at[on];
    run: for (; place < order.length; place++) {
      const t = order[place], end = first[t + 1];
      let ready = now;
      for (let arc = first[t]; arc < end; arc++) {
        const there = ends[before[arc]];
        if (there < 0) {
          nextSleeper[on] = sleeper[before[arc]];
          sleeper[before[arc]] = on;
          break run;
        }
        if (there + lag[arc] > ready) ready = there + lag[arc];
      }
      starts[t] = ready;
      ends[t] = now = ready + duration[t];
      sequence[done++] = t;
      for (let woken = sleeper[t]; woken >= 0; woken = nextSleeper[woken]) awake.push(woken);
      sleeper[t] = -1;
    }
    [clock[on], at[on]] = [now, place];
  }
  const stuck = orders.map((order, on) => order[at[on]]), hangs = stuck.findIndex(t => t >= 0);
  const deadlock = hangs < 0 ? null : cycleFrom(s, stuck, ends, hangs);
  return { starts, ends, sequence: sequence.subarray(0, done), deadlock, isLate: false };
}

// Walks from a machine to the one that it waits for, until one comes again.
function cycleFrom(s, stuck, ends, on) {
  const path = [];
  while (!path.some(link => link[1] === on)) {
    let arc = s.first[stuck[on]];
    while (ends[s.before[arc]] >= 0) arc++;
    path.push([stuck[on], on, s.before[arc]]);
    on = s.machine[s.before[arc]];
  }
  return path.slice(path.findIndex(link => link[1] === on));
}

// The schedule with its slots in other orders.
const timed = (s, orders, times = earliest(s, orders)) => ({ ...s, orders, ...times, cache: {} });

// The times as numbers: the first start, the makespan, and busy time, first start and last end of each device.
const ranks = s => s.orders.slice(0, s.P); // the orders of devices, without lanes

const totals = s => cached(s, "totals", () => {
  const devices = ranks(s), firsts = devices.map(order => (order.length ? s.starts[order[0]] : 0));
  const lasts = devices.map(order => (order.length ? s.ends[order[order.length - 1]] : 0));
  const busy = (s.busy ??= devices.map(order => order.reduce((sum, t) => sum + s.duration[t], 0))); // in whatever order
  const moving = networkLanes(s).filter(lane => lane.length);
  const begin = min(...firsts, ...moving.map(lane => s.starts[lane[0]])), end = max(...lasts, ...moving.map(lane => s.ends[lane[lane.length - 1]])), makespan = end - begin;
  const idle = busy.map(time => makespan - time), allIdle = idle.reduce((a, b) => a + b);
  return { begin, end, makespan, firsts, lasts, busy, idle, allIdle, bubble: makespan ? allIdle / (s.P * makespan) : 0 };
});

// Single changes of an order: where a task may stand, what forbids other places, and which move shortens the schedule.

function moved(orders, machine, from, to) {
  const order = orders[machine].slice();
  order.splice(to, 0, ...order.splice(from, 1));
  return orders.map((other, on) => (on === machine ? order : other));
}

const places = s => cached(s, "places", () => {
  const found = untold(s.size);
  for (const order of s.orders) order.forEach((t, place) => { found[t] = place; });
  return found;
});
const placeOf = (s, t) => places(s)[t];

// The places of a task in the order of its machine, all else in its order: behind the last task that reaches it (`back`)
// up to before the first that it reaches (`on`).
function legalPlaces(s, t) {
  const back = reach(s, s, t, -1), on = reach(s, usersOf(s), t, 1), count = s.orders[s.machine[t]].length;
  return { position: placeOf(s, t), first: back.place + 1, last: (on.place < 0 ? count : on.place) - 1, back, on };
}

// Goes from a task along arcs, and along orders in that direction, to the nearest place on its own machine that it comes
// to: the place, the task there, and the stages on the way.
function reach(s, arcs, t, direction) {
  const { starts, ends } = s, own = s.machine[t], order = s.orders[own];
  const from = new Int32Array(s.size).fill(-2), queue = []; // from: who led there
  const visit = (next, by) => {
    if (from[next] > -2) return;
    from[next] = by;
    queue.push(next);
  };
  const follow = here => {
    for (let arc = arcs.first[here]; arc < arcs.first[here + 1]; arc++) visit(arcs.before[arc], here);
  };
  from[t] = -1;
  let place = -1;
  follow(t);
  for (const here of queue) {
    const best = order[place], at = placeOf(s, here), machine = s.machine[here];
    // too early, or too late, to lie between the nearest so far and the task
    if (place >= 0 && (direction < 0 ? starts[here] < ends[best] : ends[here] > starts[best])) continue;
    if (machine === own) {
      if (place < 0 || (at - place) * direction < 0) place = at;
      continue; // what lies behind it on this machine is further away
    }
    const beside = s.orders[machine][at + direction];
    if (beside >= 0) visit(beside, here);
    follow(here);
  }
  const found = place < 0 ? -1 : order[place], stages = [];
  for (let on = place < 0 ? -1 : from[found]; on >= 0 && on !== t; on = from[on]) if (on < s.passes) stages.push(stageOf(s, on));
  return { place, task: found, stages };
}

// Those of its legal places that leave the programs of lanes as they may be: from where it stands up to the first refusal
// on either side, for what a move breaks, a longer one breaks too.
function openPlaces(s, t) {
  const { position, first, last } = legalPlaces(s, t);
  const furthest = to => {
    let open = position, shut = to + Math.sign(to - position);
    while (Math.abs(shut - open) > 1) {
      const at = (open + shut) >> 1;
      if (programRefusal(s, t, at)) shut = at;
      else open = at;
    }
    return open;
  };
  return { position, first: furthest(first), last: furthest(last) };
}

// Why a task may not stand at a position: "3B2 waits for 3F2 through stages 4-7"; null where it may.
function whyNot(s, t, to) {
  if (!Number.isInteger(to) || to < 0 || to >= s.orders[s.machine[t]].length) return `there is no position ${to}`;
  const { first, last, back, on } = legalPlaces(s, t);
  if (to >= first && to <= last) return null;
  const [late, early, { stages }] = to < first ? [t, back.task, back] : [on.task, t, on];
  const low = min(...stages), high = max(...stages);
  const through = !stages.length ? "" : low === high ? ` through stage ${low}` : ` through stages ${low}-${high}`;
  return `${slotText(s, late)} waits for ${slotText(s, early)}${through}`;
}

// The move that leaves the least makespan of those that shorten the schedule, null where none does; and whether all were
// timed that may. Only a task of the critical path, held or holding by the order of its device, can gain. Times are the
// earliest.
function bestMove(s, most = 5e6) {
  const { path, isHeldByOrder } = reasons(s), tries = [];
  path.forEach((t, i) => {
    if (!ofDevice(s, t) || ![t, ...path.slice(i + 1, i + 2)].some(isHeldByOrder)) return;
    const { position, first, last } = openPlaces(s, t);
    for (let to = first; to <= last; to++) if (to !== position) tries.push({ task: t, from: position, to });
  });
  tries.sort((a, b) => abs(a.to - a.from) - abs(b.to - b.from));
  const count = max(floor(most / s.sequence.length), 1);
  let best = null, least = totals(s).makespan;
  for (const { task, from, to } of tries.slice(0, count)) {
    const { makespan } = totals(timed(s, moved(s.orders, s.machine[task], from, to)));
    if (makespan < least) best = { task, from, to, makespan: least = makespan };
  }
  return { best, complete: tries.length <= count };
}

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

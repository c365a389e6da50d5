// From orders to times: every task as early as its order and its inputs allow, as pipesched.core.timing has it.

// Returns starts and ends by task (-1: not run), the tasks in an order in which each comes behind what it waits for,
// and the cycle [[task, machine, awaited task]] in which the orders hang, null if they run. `old` are the earliest times
// of orders that are the same but for slots that start, before and after, no earlier than the tick `since`.
function earliest(graph, orders, old = null, since = 0) {
  const { first, before, lag, duration, size } = graph;
  const starts = old ? old.starts.slice() : new Float64Array(size).fill(-1);
  const ends = old ? old.ends.slice() : new Float64Array(size).fill(-1);
  const sequence = new Int32Array(size);
  const at = new Int32Array(orders.length), clock = new Float64Array(orders.length);
  const sleeper = new Int32Array(size).fill(-1), nextSleeper = new Int32Array(orders.length).fill(-1);
  const awake = orders.map((_, machine) => machine);
  let done = 0;
  for (const task of old ? old.sequence : []) {
    if (starts[task] < since) {
      sequence[done++] = task;
      at[graph.machine[task]]++;
      clock[graph.machine[task]] = ends[task];
    } else ends[task] = -1;
  }
  while (awake.length) {
    const machine = awake.pop(), order = orders[machine];
    let now = clock[machine], place = at[machine];
    run: for (; place < order.length; place++) {
      const task = order[place], last = first[task + 1];
      let ready = now;
      for (let arc = first[task]; arc < last; arc++) {
        const end = ends[before[arc]];
        if (end < 0) {
          nextSleeper[machine] = sleeper[before[arc]];
          sleeper[before[arc]] = machine;
          break run;
        }
        if (end + lag[arc] > ready) ready = end + lag[arc];
      }
      starts[task] = ready;
      ends[task] = now = ready + duration[task];
      sequence[done++] = task;
      for (let woken = sleeper[task]; woken >= 0; woken = nextSleeper[woken]) awake.push(woken);
      sleeper[task] = -1;
    }
    clock[machine] = now;
    at[machine] = place;
  }
  const stuck = orders.map((order, machine) => (at[machine] < order.length ? order[at[machine]] : -1));
  const hangs = stuck.findIndex((task) => task >= 0);
  return { starts, ends, sequence: sequence.subarray(0, done), deadlock: hangs < 0 ? null : cycleFrom(graph, stuck, ends, hangs) };
}

// Walks from a machine to the one that it waits for, until one comes again.
function cycleFrom(graph, stuck, ends, start) {
  const path = [];
  let machine = start;
  while (!path.some((link) => link[1] === machine)) {
    const task = stuck[machine];
    let arc = graph.first[task];
    while (ends[graph.before[arc]] >= 0) arc++;
    path.push([task, machine, graph.before[arc]]);
    machine = graph.machine[graph.before[arc]];
  }
  return path.slice(path.findIndex((link) => link[1] === machine));
}

// The times of a plan as numbers: the first start, the makespan, and busy, first start and last end of each device.
function measures(graph, orders, times) {
  const devices = orders.slice(0, graph.devices);
  const firsts = devices.map((order) => (order.length ? times.starts[order[0]] : 0));
  const lasts = devices.map((order) => (order.length ? times.ends[order[order.length - 1]] : 0));
  const busy = devices.map((order) => order.reduce((sum, task) => sum + times.ends[task] - times.starts[task], 0));
  const begin = firsts.reduce((a, b) => Math.min(a, b)), end = lasts.reduce((a, b) => Math.max(a, b));
  const idle = busy.map((time) => end - begin - time);
  const all = idle.reduce((a, b) => a + b);
  return {
    begin, end, makespan: end - begin, firsts, lasts, busy, idle,
    bubble: end > begin ? all / (graph.devices * (end - begin)) : 0,
  };
}

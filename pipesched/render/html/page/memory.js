// The activation memory of devices over time, in grains.

// Returns times and, from each on, the level: what is freed at a time counts before what is taken then.
function memorySteps(graph, orders, times, device) {
  const changes = [];
  const add = (task) => {
    if (graph.takes[task]) changes.push([times.starts[task], graph.takes[task]]);
    if (graph.gives[task]) changes.push([times.ends[task], -graph.gives[task]]);
  };
  orders[device].forEach(add);
  for (let lane = graph.devices; lane < orders.length; lane++) {
    orders[lane].forEach((task) => { if (deviceOf(graph, task) === device) add(task); });
  }
  changes.sort((a, b) => a[0] - b[0]);
  const steps = { times: [0], levels: [0] };
  let level = 0;
  for (const [time, change] of changes) {
    level += change;
    const last = steps.times.length - 1;
    if (steps.times[last] === time) steps.levels[last] = level;
    else { steps.times.push(time); steps.levels.push(level); }
  }
  return steps;
}

const peakOf = (steps) => steps.levels.reduce((a, b) => Math.max(a, b));

// The last entry of sorted values that is at most `value`, -1 where none is.
function lastAtMost(values, value) {
  let low = -1, high = values.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (values[middle] <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}

// The highest of any stretch of levels, in constant time: tables[k][i] is the highest of the 2^k levels from i on.
function highestOf(steps) {
  const tables = [steps.levels];
  for (let reach = 1; 2 * reach <= steps.levels.length; reach *= 2) {
    const below = tables[tables.length - 1];
    tables.push(below.slice(reach).map((level, at) => Math.max(below[at], level)));
  }
  return (start, end) => {
    const from = Math.max(lastAtMost(steps.times, start), 0);
    let to = lastAtMost(steps.times, end) + 1;
    if (to > 0 && steps.times[to - 1] === end) to--;
    if (to <= from) return 0;
    const power = 31 - Math.clz32(to - from);
    return Math.max(tables[power][from], tables[power][to - (1 << power)]);
  };
}

// Whether a task that takes memory fits at an earlier time, all else at its own, within the budget of its device.
function memoryFit(graph, orders, times) {
  const highest = new Map();
  return (task, time) => {
    const device = deviceOf(graph, task), capacity = graph.data.capacity[device];
    if (capacity === null) return true;
    if (!highest.has(device)) highest.set(device, highestOf(memorySteps(graph, orders, times, device)));
    const start = times.starts[task], end = Math.min(time + graph.duration[task], start);
    const fits = (from, to, more) => from >= to || highest.get(device)(from, to) + more <= capacity;
    return fits(time, end, graph.takes[task]) && fits(end, start, graph.takes[task] - graph.gives[task]);
  };
}

// The activation memory of devices over time, in grains.

// Times and, from each on, the level: what is freed at a time counts before what is taken then.
const memoryOf = (s, device) => cached(s, `memory${device}`, () => {
  const changes = [], times = [0], levels = [0];
  const tasks = s.orders.flatMap((order, on) => (on === device ? order : on < s.P ? [] : order.filter((t) => deviceOf(s, t) === device)));
  for (const t of tasks) changes.push([s.starts[t], s.takes[t]], [s.ends[t], -s.gives[t]]);
  changes.sort((a, b) => a[0] - b[0]);
  let level = 0;
  for (const [time, change] of changes.filter((one) => one[1])) {
    level += change;
    if (times[times.length - 1] < time) times.push(time);
    levels[times.length - 1] = level;
  }
  return { times, levels, peak: levels.reduce((a, b) => Math.max(a, b)) };
});

const isOver = (s, device) => s.capacity[device] !== null && memoryOf(s, device).peak > s.capacity[device];

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
const lastAtMost = (values, value) => countBefore(values.length, (i) => values[i] > value) - 1;

// The highest of any stretch of levels, in constant time: tables[k][i] is the highest of the 2^k levels from i on.
function highestOf({ times, levels }) {
  const tables = [levels];
  for (let reach = 1; 2 * reach <= levels.length; reach *= 2) {
    const below = tables[tables.length - 1];
    tables.push(below.slice(reach).map((level, i) => Math.max(below[i], level)));
  }
  return (start, end) => {
    const from = Math.max(lastAtMost(times, start), 0), to = countBefore(times.length, (i) => times[i] >= end);
    if (to <= from) return 0;
    const power = 31 - Math.clz32(to - from);
    return Math.max(tables[power][from], tables[power][to - (1 << power)]);
  };
}

// Whether a task that takes memory fits at an earlier time, all else at its own, within the budget of its device.
function fits(s, t, time) {
  const device = deviceOf(s, t), capacity = s.capacity[device];
  if (capacity === null) return true;
  const highest = cached(s, `highest${device}`, () => highestOf(memoryOf(s, device)));
  const start = s.starts[t], end = Math.min(time + s.duration[t], start);
  const below = (from, to, more) => from >= to || highest(from, to) + more <= capacity;
  return below(time, end, s.takes[t]) && below(end, start, s.takes[t] - s.gives[t]);
}

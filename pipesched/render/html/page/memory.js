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

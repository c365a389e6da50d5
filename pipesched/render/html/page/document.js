// The JSON document of a schedule, and every metric in it. Each time is one division: ticks / scale.

function metricsOf(graph, orders, times, edited) {
  const { devices, data } = graph;
  const got = measures(graph, orders, times), { makespan, busy, idle } = got;
  const span = got.lasts.reduce((most, end, device) => Math.max(most, end - got.firsts[device]), 0);
  const useful = busy.map((time, device) => time - orders[device].reduce(
    (sum, task) => sum + (kindOf(graph, task).ideal ? 0 : graph.duration[task]), 0));
  const ideal = Math.max(...useful), all = useful.reduce((a, b) => a + b);
  const peaks = busy.map((_, device) => peakOf(memorySteps(graph, orders, times, device)));
  const fits = peaks.every((peak, device) => data.capacity[device] === null || peak <= data.capacity[device]);
  const bound = edited ? boundOfEdited(data, fits) : data.bound.ticks;
  const ratio = (part, whole) => (whole ? part / whole : 0);
  const time = (ticks) => ticks / data.perUnit, size = (grains) => grains / data.perGrain;
  return {
    makespan: time(makespan), span: time(span), ideal: time(ideal), bubble: got.bubble,
    bubble_over_ideal: ratio(makespan - ideal, ideal), bubble_span: ratio(span - ideal, span),
    lower_bound: time(bound), gap: ratio(makespan - bound, bound),
    idle: idle.map(time), busy: busy.map(time), peak_memory: peaks.map(size),
    memory: peaks.map((peak, device) => size(peak + data.static[device])),
    imbalance: ratio(devices * ideal - all, devices * makespan), utilization: ratio(all, devices * makespan),
    bottleneck: useful.indexOf(ideal), fits,
  };
}

// A bound that counts the budget holds only for schedules within it.
const boundOfEdited = (data, fits) => (fits ? Math.max(data.bound.own, data.unlimited) : data.unlimited);

function timesDocument(graph, orders, times) {
  const entry = (task) => ({
    op: slotText(graph, task), start: times.starts[task] / graph.data.perUnit, end: times.ends[task] / graph.data.perUnit,
  });
  const moves = orders.slice(graph.devices).flat();
  moves.sort((a, b) => times.starts[a] - times.starts[b] || times.ends[a] - times.ends[b]);
  const transfers = orders.length > graph.devices ? Array.from({ length: graph.devices }, () => []) : [];
  for (const task of moves) transfers[deviceOf(graph, task)].push(entry(task));
  return { devices: orders.slice(0, graph.devices).map((order) => order.map(entry)), transfers };
}

function scheduleDocument(graph, orders, times, edited) {
  const { data } = graph, metrics = metricsOf(graph, orders, times, edited);
  const { devices, transfers } = timesDocument(graph, orders, times);
  const proved = Math.round(metrics.makespan * data.perUnit) === Math.round(boundOfEdited(data, metrics.fits));
  return {
    format: "pipesched.schedule", version: 1, algorithm: data.algorithm,
    status: !edited ? data.status : proved ? "optimal" : "heuristic",
    problem: data.problem, metrics, devices,
    ...(transfers.length ? { transfers } : {}),
    ...(graph.waits.length ? { waits: graph.waits.map(([before, after]) => [opText(graph, after), opText(graph, before)]) } : {}),
    ...(data.solver && !edited ? { solver: data.solver } : {}),
  };
}

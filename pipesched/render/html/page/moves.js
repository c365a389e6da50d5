// Single changes of an order: where a task may stand, what forbids other places, and which move shortens the schedule.

function movedOrder(order, from, to) {
  const rest = order.slice();
  const [task] = rest.splice(from, 1);
  rest.splice(to, 0, task);
  return rest;
}

function movedOrders(orders, machine, from, to) {
  return orders.map((order, number) => (number === machine ? movedOrder(order, from, to) : order));
}

// Arcs out of each task: those of task t at first[t] .. first[t + 1]. Made when first needed.
function usersOf(graph) {
  if (!graph.users) {
    const first = new Int32Array(graph.size + 2), after = new Int32Array(graph.before.length);
    for (const before of graph.before) first[before + 2]++;
    for (let at = 2; at < first.length; at++) first[at] += first[at - 1];
    for (let task = 0; task < graph.size; task++) {
      for (let arc = graph.first[task]; arc < graph.first[task + 1]; arc++) after[first[graph.before[arc] + 1]++] = task;
    }
    graph.users = { first, before: after };
  }
  return graph.users;
}

// The places of a task in the order of its machine, all else in its order: from the one behind the last task that
// reaches it, to the one before the first that it reaches: `back` and `on`, with the ways there. `times` are those of
// the orders.
function legalPlaces(graph, orders, task, times) {
  const order = orders[graph.machine[task]], position = order.indexOf(task);
  const back = reach(graph, graph, orders, times, task, -1);
  const on = reach(graph, usersOf(graph), orders, times, task, 1);
  return { position, first: back.place + 1, last: (on.place < 0 ? order.length : on.place) - 1, back, on };
}

// Goes from a task along arcs (and along orders, in that direction) and returns the nearest place on its own machine
// that it comes to: position, task, and the stages on the way.
function reach(graph, arcs, orders, times, task, direction) {
  const own = graph.machine[task], places = placesOf(graph, orders);
  const from = new Int32Array(graph.size).fill(-2); // who led there
  const queue = [];
  const visit = (next, by) => {
    if (from[next] === -2) {
      from[next] = by;
      queue.push(next);
    }
  };
  from[task] = -1;
  let best = -1;
  for (let arc = arcs.first[task]; arc < arcs.first[task + 1]; arc++) visit(arcs.before[arc], task);
  for (let at = 0; at < queue.length; at++) {
    const here = queue[at], machine = graph.machine[here], place = places[here];
    if (best >= 0 && (direction < 0 ? times.starts[here] < times.ends[orders[own][best]] : times.ends[here] > times.starts[orders[own][best]])) {
      continue; // too early, or too late, to lie between the nearest so far and the task
    }
    if (machine === own) {
      if (best < 0 || (place - best) * direction < 0) best = place;
      continue; // what lies behind it on this machine is further away
    }
    const beside = orders[machine][place + direction];
    if (beside !== undefined) visit(beside, here);
    for (let arc = arcs.first[here]; arc < arcs.first[here + 1]; arc++) visit(arcs.before[arc], here);
  }
  const found = best < 0 ? -1 : orders[own][best];
  const stages = [];
  for (let on = found < 0 ? -1 : from[found]; on >= 0 && on !== task; on = from[on]) stages.push(stageOf(graph, on));
  return { place: best, task: found, stages };
}

function placesOf(graph, orders) {
  const places = new Int32Array(graph.size).fill(-1);
  for (const order of orders) order.forEach((task, place) => { places[task] = place; });
  return places;
}

// Why a task may not stand at a position: "3B2 waits for 3F2 through stages 4-7"; null where it may.
function whyNot(graph, orders, task, to, times) {
  if (!Number.isInteger(to) || to < 0 || to >= orders[graph.machine[task]].length) return `there is no position ${to}`;
  const legal = legalPlaces(graph, orders, task, times);
  if (to >= legal.first && to <= legal.last) return null;
  const [late, early, way] = to < legal.first ? [task, legal.back.task, legal.back] : [legal.on.task, task, legal.on];
  const [low, high] = [Math.min(...way.stages), Math.max(...way.stages)];
  const through = !way.stages.length ? "" : low === high ? ` through stage ${low}` : ` through stages ${low}-${high}`;
  return `${slotText(graph, late)} waits for ${slotText(graph, early)}${through}`;
}

// The move that leaves the least makespan, of those that may shorten: null where none of those timed does.
// Only a task on every longest path, held or holding by the order of its device, can gain.
function bestMove(graph, orders, known, most = 5e6) {
  const tries = [];
  for (const task of movable(graph, orders, known)) {
    const { position, first, last } = legalPlaces(graph, orders, task, known);
    for (let to = first; to <= last; to++) if (to !== position) tries.push([Math.abs(to - position), task, position, to]);
  }
  tries.sort((a, b) => a[0] - b[0]);
  const budget = Math.max(Math.floor(most / Math.max(known.sequence.length, 1)), 1);
  let best = null;
  for (const [, task, from, to] of tries.slice(0, budget)) {
    const changed = movedOrders(orders, graph.machine[task], from, to);
    const { makespan } = measures(graph, changed, earliest(graph, changed));
    if (makespan < (best ? best.makespan : known.makespan)) best = { task, from, to, makespan };
  }
  return { best, complete: tries.length <= budget };
}

function movable(graph, orders, known) {
  const path = known.path, always = onEveryLongestPath(graph, known);
  const byOrder = (task) => task !== undefined && known.isHeldByOrder(task);
  return path.filter((task, at) => always.has(task) && isDevice(graph, graph.machine[task])
    && (byOrder(task) || byOrder(path[at + 1])));
}

// The tasks that no arc between critical tasks passes by, when they are numbered so that arcs go upwards.
function onEveryLongestPath(graph, known) {
  const critical = Array.from(known.sequence).filter((task) => known.slack[task] === 0);
  const number = new Map(critical.map((task, count) => [task, count]));
  const jumps = new Int32Array(critical.length + 2);
  const jump = (before, after) => { jumps[before + 1]++; jumps[after]--; };
  for (const task of critical) {
    const here = number.get(task);
    if (known.allowed[task] === known.begin) jump(-1, here);
    if (known.ends[task] === known.end && isDevice(graph, graph.machine[task])) jump(here, critical.length);
    known.eachArc(task, (before, lag) => {
      if (number.has(before) && known.ends[before] + lag === known.allowed[task]) jump(number.get(before), here);
    });
  }
  const found = new Set();
  let over = 0;
  critical.forEach((task, count) => {
    over += jumps[count];
    if (!over) found.add(task);
  });
  return found;
}

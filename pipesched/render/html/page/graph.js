// The task graph of a schedule, as pipesched.pipeline.lowering makes it: what each operation lasts, takes, gives back
// and waits for. A pair is the task of its forward. Times are whole ticks, memory is whole grains.

async function graphOf(data) {
  const { devices, stages, microbatches } = data.problem;
  const shape = { letters: data.letters, devices, stages, microbatches };
  const { orders, pairs, waits, starts, lengths } = await ordersOf(data, shape);
  const size = data.letters.length * stages * microbatches;
  const graph = {
    ...shape, data, size, pairs, waits, orders, loadedStarts: starts,
    task: Int32Array.from({ length: size }, (_, number) => number),
    present: new Uint8Array(size),
    machine: new Int32Array(size).fill(-1),
    duration: new Float64Array(size),
    takes: new Float64Array(size),
    gives: new Float64Array(size),
  };
  orders.forEach((order, machine) => order.forEach((task) => { graph.present[task] = 1; graph.machine[task] = machine; }));
  for (const [forward, backward] of pairs) {
    graph.present[backward] = 1;
    graph.task[backward] = forward;
  }
  fillColumns(graph);
  if (lengths) orders.flat().forEach((task, place) => { graph.duration[task] = lengths[place]; });
  fillArcs(graph);
  return graph;
}

const kindOf = (graph, number) => graph.data.kinds[Math.floor(number / (graph.stages * graph.microbatches))];
const stageOf = (graph, number) => Math.floor(number / graph.microbatches) % graph.stages;
const microbatchOf = (graph, number) => number % graph.microbatches;
const ofStage = (values, stage) => (Array.isArray(values) ? values[stage] : values);
const isDevice = (graph, machine) => machine >= 0 && machine < graph.devices;

function opText(graph, number) {
  return `${stageOf(graph, number)}${kindOf(graph, number).letter}${microbatchOf(graph, number)}`;
}

function slotText(graph, task) {
  const backward = graph.pairs.get(task);
  return backward === undefined ? opText(graph, task) : `(${opText(graph, task)};${opText(graph, backward)})OVERLAP_F_B`;
}

// The task that a text names: an operation, a pair, or either part of one; -1 where none runs.
function taskOf(graph, text) {
  const found = numberOf(graph, String(text));
  if (found === null) return -1;
  if (Array.isArray(found)) return graph.pairs.get(found[0]) === found[1] ? found[0] : -1;
  return graph.present[found] ? graph.task[found] : -1;
}

function deviceOf(graph, number) {
  const device = graph.data.placement[stageOf(graph, number)];
  const turned = graph.data.mirrored && microbatchOf(graph, number) >= Math.floor(graph.microbatches / 2);
  return turned ? graph.devices - 1 - device : device;
}

function fillColumns(graph) {
  const { duration, takes, gives, pairs, stages, microbatches } = graph;
  const rows = (kind, use) => {
    const first = graph.letters.indexOf(kind.letter) * stages * microbatches;
    for (let at = 0; at < stages * microbatches; at++) {
      if (graph.present[first + at]) use(first + at, Math.floor(at / microbatches), at);
    }
  };
  for (const kind of graph.data.kinds) {
    rows(kind, (number, stage) => {
      duration[number] = ofStage(kind.duration, stage);
      takes[number] = ofStage(kind.takes, stage);
      gives[number] = ofStage(kind.gives, stage);
    });
  }
  for (const kind of graph.data.kinds.filter((one) => one.forwardGives !== null)) {
    rows(kind, (_, stage, at) => { gives[at] = ofStage(kind.forwardGives, stage); }); // forwards come first
  }
  const { overlap } = graph.data;
  for (const [forward, backward] of pairs) {
    duration[forward] = overlap === null
      ? duration[forward] + duration[backward] : ofStage(overlap, stageOf(graph, forward));
    gives[forward] += gives[backward];
  }
}

// Calls use(before, after, lag, boundary) for each precedence of data, in the order of the rows of lowering.py.
function eachPrecedence(graph, use) {
  const { stages, microbatches, letters, present, task } = graph;
  const row = (before, stage, after, there, lag, boundary) => {
    let from = (letters.indexOf(before) * stages + stage) * microbatches;
    let to = (letters.indexOf(after) * stages + there) * microbatches;
    for (const end = from + microbatches; from < end; from++, to++) {
      if (present[from] && present[to]) use(task[from], task[to], lag, boundary);
    }
  };
  const needs = graph.data.kinds.flatMap((kind) => kind.needs.map(([letter, offset]) => [kind.letter, letter, offset]));
  for (let stage = 0; stage < stages; stage++) {
    for (const [letter, need, offset] of needs) if (!offset) row(need, stage, letter, stage, 0, -1);
  }
  graph.data.p2p.forEach((hop, stage) => {
    const crosses = graph.data.placement[stage] !== graph.data.placement[stage + 1];
    for (const [letter, need, offset] of needs) {
      if (!offset) continue;
      const [before, after] = offset < 0 ? [stage, stage + 1] : [stage + 1, stage];
      row(need, before, letter, after, crosses ? hop : 0, crosses ? stage : -1);
    }
  });
}

// Arcs into each task, those of task t at first[t] .. first[t + 1]: inputs (is 1), then wait edges (is 0).
function fillArcs(graph) {
  const { size, task } = graph;
  const first = new Int32Array(size + 2);
  const wait = (use) => graph.waits.forEach(([before, after]) => use(task[before], task[after]));
  eachPrecedence(graph, (_, after) => { first[after + 2]++; });
  wait((_, after) => { first[after + 2]++; });
  for (let at = 2; at < size + 2; at++) first[at] += first[at - 1];
  const count = first[size + 1];
  graph.before = new Int32Array(count);
  graph.lag = new Float64Array(count);
  graph.boundary = new Int32Array(count).fill(-1);
  graph.isInput = new Uint8Array(count);
  eachPrecedence(graph, (before, after, lag, boundary) => {
    const at = first[after + 1]++;
    graph.before[at] = before;
    graph.lag[at] = lag;
    graph.boundary[at] = boundary;
    graph.isInput[at] = 1;
  });
  wait((before, after) => { graph.before[first[after + 1]++] = before; });
  graph.first = first;
}

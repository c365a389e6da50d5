// What the page shows: schedules as they stand, the window, the selection, and one stack of edits.

const page = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const sheets = []; // one a schedule: graph, orders, times, numbers, edits
const edits = { done: [], undone: [] }; // {sheet, task, from, to}
const view = { from: 0, to: 1, whole: true }; // in the user's units; whole: all there is, also after edits
const shows = { path: page.explains, idle: page.explains, memory: false, marks: false };
let current = 0; // the index of the schedule that was selected last
let selection = null; // {sheet: index, task}
let loadedCount = 0; // schedules of the file; further ones were kept by the reader

const LARGE = 20000; // operations from which reasons wait until nothing moves

const unitsOf = (sheet, ticks) => ticks / sheet.graph.data.perUnit;
const numberText = (value) => String(Number(value.toPrecision(9)));
const timeText = (sheet, ticks) => numberText(unitsOf(sheet, ticks));
const unitName = () => (page.schedules[0].problem.time_unit ? ` ${page.schedules[0].problem.time_unit}` : "");
const textOf = (sheet, task) => slotText(sheet.graph, task);
const totalTime = () => Math.max(...sheets.map((sheet) => unitsOf(sheet, sheet.got.end))) || 1;

async function load() {
  for (const data of page.schedules) {
    const graph = await graphOf(data), times = earliest(graph, graph.orders);
    addSheet(graph, data.name, graph.orders, graph.loadedStarts || times.deadlock ? givenTimes(graph, times) : times);
  }
  loadedCount = sheets.length;
  if (sheets.some((sheet) => sheet.graph.data.capacity[0] !== null) && totalRows() <= 16) shows.memory = true;
}

// The times of the file, where they are later than they could be.
function givenTimes(graph, times) {
  const starts = times.starts.slice(), ends = times.ends.slice();
  let at = 0;
  for (const order of graph.orders) {
    for (const task of order) {
      starts[task] = graph.loadedStarts[at++];
      ends[task] = starts[task] + graph.duration[task];
    }
  }
  const sequence = times.deadlock ? Int32Array.from(graph.orders.flat()).sort((a, b) => starts[a] - starts[b]) : times.sequence;
  return { starts, ends, sequence, isLate: true, deadlock: null };
}

function addSheet(graph, name, orders, times) {
  const sheet = { graph, name, index: sheets.length, orders, times, got: measures(graph, orders, times), edits: 0, cache: {} };
  sheet.loaded = { orders, times, got: sheet.got };
  sheet.operations = graph.orders.reduce((sum, order) => sum + order.length, 0);
  sheet.colours = coloursOf(graph);
  sheets.push(sheet);
  return sheet;
}

function cached(sheet, key, make) {
  if (!(key in sheet.cache)) sheet.cache[key] = make();
  return sheet.cache[key];
}

const known = (sheet) => cached(sheet, "known", () => analysis(sheet.graph, sheet.orders, sheet.times));
const gapsOf = (sheet) => cached(sheet, "gaps", () => idleGaps(sheet.graph, sheet.orders, known(sheet)));
const gapsOn = (sheet, device) => cached(sheet, `gaps${device}`, () => gapsOf(sheet).filter((gap) => gap.device === device));
const placeOf = (sheet, task) => cached(sheet, "places", () => placesOf(sheet.graph, sheet.orders))[task];
const stepsOf = (sheet, device) => cached(sheet, `steps${device}`, () => memorySteps(sheet.graph, sheet.orders, sheet.times, device));
const metrics = (sheet) => cached(sheet, "metrics", () => metricsOf(sheet.graph, sheet.orders, sheet.times, sheet.edits > 0));

// Reasons of the same order at its earliest times: sensitivities and moves are about those.
const earlyKnown = (sheet) => cached(sheet, "early", () => (
  sheet.times.isLate ? analysis(sheet.graph, sheet.orders, earliest(sheet.graph, sheet.orders)) : known(sheet)));

function setOrders(sheet, orders, times) {
  sheet.orders = orders;
  sheet.times = times;
  sheet.got = measures(sheet.graph, orders, times);
  sheet.cache = {};
}

// The times of orders that differ from those of a sheet on one machine, from a position on.
function retimed(sheet, orders, machine, position) {
  const { graph, times } = sheet;
  if (times.isLate || !position) return earliest(graph, orders);
  return earliest(graph, orders, times, times.ends[sheet.orders[machine][position - 1]]);
}

// Moves a task to a position: null, or why that cannot be. No words, no drawing.
function changeOrder(sheet, task, to) {
  const machine = sheet.graph.machine[task];
  if (!isDevice(sheet.graph, machine)) return `${textOf(sheet, task)} is a transfer: lanes keep their order`;
  const refusal = whyNot(sheet.graph, sheet.orders, task, to, sheet.times);
  if (refusal) return refusal;
  const from = placeOf(sheet, task);
  if (from === to) return null;
  const orders = movedOrders(sheet.orders, machine, from, to), times = retimed(sheet, orders, machine, Math.min(from, to));
  if (times.deadlock) return times.deadlock.map((link) => `${textOf(sheet, link[0])} waits for ${textOf(sheet, link[2])}`).join("; ");
  setOrders(sheet, orders, times);
  sheet.edits++;
  edits.done.push({ sheet, task, from, to });
  edits.undone = [];
  return null;
}

function undoEdit() {
  const edit = edits.done.pop();
  if (!edit) return null;
  const { sheet, task, from, to } = edit;
  sheet.edits--;
  if (!sheet.edits) setOrders(sheet, sheet.loaded.orders, sheet.loaded.times);
  else {
    const orders = movedOrders(sheet.orders, sheet.graph.machine[task], to, from);
    setOrders(sheet, orders, retimed(sheet, orders, sheet.graph.machine[task], Math.min(from, to)));
  }
  edits.undone.push(edit);
  return edit;
}

function redoEdit() {
  const rest = edits.undone.slice(), edit = rest.pop();
  if (!edit) return null;
  changeOrder(edit.sheet, edit.task, edit.to);
  edits.undone = rest;
  return edit;
}

// Every edit undone, for a link that is opened on this page.
function asLoaded() {
  while (undoEdit());
  edits.undone = [];
  selection = null;
  current = 0;
}

function difference(sheet) {
  const more = unitsOf(sheet, sheet.got.makespan - sheet.loaded.got.makespan);
  return sheet.edits ? ` (${more >= 0 ? "+" : "−"}${numberText(Math.abs(more))})` : "";
}

// What the page shows: schedules as they stand, the window, the selection, and one stack of edits.

const page = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const sheets = []; // the schedules; further ones than the file's were kept by the reader
const edits = { done: [], undone: [] }; // {s, t, from, to}
const view = { from: 0, to: 1, whole: true }; // in the user's units; whole: all there is, also after edits
const shows = { path: page.explains, idle: page.explains, memory: false, marks: false, hues: false };
const LARGE = 20000; // operations from which reasons wait until nothing moves
let current = 0; // the index of the schedule that was selected last
const shown = () => sheets[current];
let picked = null; // {s, t}

const short = (value, digits = 9) => String(Number(value.toPrecision(digits)));
const time = (s, ticks) => short(ticks < 1e-9 * totals(s).makespan ? 0 : ticks / s.per);
const percent = share => `${(share * 100).toFixed(2)}%`;
const unit = page.schedules[0].problem.time_unit ? ` ${page.schedules[0].problem.time_unit}` : "";
const totalTime = () => max(...sheets.map(s => totals(s).end / s.per)) || 1;
const isLarge = s => s.sequence.length > LARGE;
const isAtRest = s => !isLarge(s) || "gaps" in s.cache; // whether reasons can be had at once

async function load() {
  for (const data of page.schedules) {
    const s = await scheduleOf(data), times = earliest(s);
    addSheet(assign(s, s.late || times.deadlock ? givenTimes(s, times) : times));
  }
  shows.memory = totalRows() <= 16 && sheets.some(s => s.capacity[0] !== null);
}

// The times of the file, where they are later than they could be (or those of tasks of no length that wait in a circle).
function givenTimes(s, { starts, ends, sequence, deadlock }) {
  s.listed.forEach((t, i) => { ends[t] = (starts[t] = s.late[i]) + s.duration[t]; });
  return { starts, ends, sequence: deadlock ? s.listed.slice().sort((a, b) => starts[a] - starts[b]) : sequence, isLate: true };
}

function addSheet(s) {
  const { orders, starts, ends, sequence, isLate } = s;
  s.index = sheets.push(s) - 1;
  s.loaded ??= { orders, starts, ends, sequence, isLate, makespan: totals(s).makespan };
  s.tints ??= [0, 1].map(byKind => Uint32Array.from({ length: s.size }, (_, number) => {
    const m = max(microbatchOf(s, number), 0), hues = page.palette[ofStep(s, number)?.[6] ?? s.tones[+turns(s, number)][rowOf(s, number)]];
    const shades = (hues.length - 1) / page.hues, shade = number >= s.passes ? 0 : round((number % s.n) * (shades - 1) / (s.n - 1 || 1)); // of a microbatch
    return hues[byKind ? 0 : 1 + (m % page.hues) * shades + shade];
  }));
}

const retime = (s, orders, times = earliest(s, orders)) => assign(s, { orders, ...times, cache: {} });

const inLane = (s, t) => (isNetwork(s, t) ? "moved by the network" : isMessage(s, t) ? "a message" : "a transfer");

// Moves a task to a position: null, or why that cannot be. No words, no drawing.
function changeOrder(s, t, to) {
  if (!ofDevice(s, t)) return `${slotText(s, t)} is ${inLane(s, t)}: lanes keep their order`;
  const refusal = fixed(s) || whyNot(s, t, to) || programRefusal(s, t, to), from = placeOf(s, t), machine = s.machine[t];
  if (refusal || from === to) return refusal;
  const orders = moved(s.orders, machine, from, to), times = earliest(s, orders);
  if (times.deadlock) return times.deadlock.map(([late, , first]) => `${slotText(s, late)} waits for ${slotText(s, first)}`).join("; ");
  retime(s, orders, times);
  s.edits++;
  edits.done.push({ s, t, from, to });
  edits.undone = [];
  return null;
}

function undoEdit() {
  const edit = edits.done.pop();
  if (!edit) return null;
  const { s, t, from, to } = edit;
  if (--s.edits) retime(s, moved(s.orders, s.machine[t], to, from));
  else retime(s, s.loaded.orders, s.loaded);
  edits.undone.push(edit);
  return edit;
}

function redoEdit() {
  const rest = edits.undone, edit = rest.pop();
  if (!edit) return null;
  changeOrder(edit.s, edit.t, edit.to);
  edits.undone = rest;
  return edit;
}

// Every edit undone, for a link that is opened on this page.
function asLoaded() {
  while (undoEdit());
  edits.undone = [];
  picked = null;
  current = 0;
}

function difference(s) {
  const more = (totals(s).makespan - s.loaded.makespan) / s.per;
  return s.edits ? ` (${more < 0 ? "" : "+"}${short(more)})` : "";
}

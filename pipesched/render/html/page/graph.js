// A schedule in the page: its plan unpacked, then the graph of its tasks.

// The plan of a schedule, from texts or packed: orders of devices, then of lanes; the backwards of pairs; wait edges
// [before, after]; starts where they are late. An operation is the number row * U + unit: microbatch * slices + slice.

const { abs, ceil, floor, max, min, round } = Math, { assign } = Object;

// What a text names: [operation], or [forward, backward] of a pair; null for what is no operation of the problem.
function numbersOf({ letters, S, M, n, U, numbers: known }, text) {
  if (known.has(text)) return [known.get(text)];
  const pair = /^\(([\w.]+);([\w.]+)\)OVERLAP_F_B$/.exec(text);
  const numbers = (pair ? pair.slice(1) : [text]).map(op => {
    const [, stage, letter, microbatch, , slice] = /^(0|[1-9]\d{0,8})([A-Z])(0|[1-9]\d{0,8})(\.(0|[1-9]\d{0,8}))?$/.exec(op) || [];
    const isKnown = letters.includes(letter) && +stage < S && +microbatch < M && (n > 1 ? +slice < n : !slice);
    return isKnown ? (letters.indexOf(letter) * S + +stage) * U + microbatch * n + (slice | 0) : -1;
  });
  return numbers.includes(-1) ? null : numbers;
}

function named(s, { orders, lanes, waits, starts, lengths, arrived }) {
  const pairs = new Map();
  const numbers = rows => rows.map(row => row.map(text => {
    const [number, backward] = numbersOf(s, text);
    if (backward >= 0) pairs.set(number, backward);
    return number;
  }));
  return { orders: numbers([...orders, ...lanes]), pairs, waits: numbers(waits), late: starts, lengths, arrived };
}

async function numbersIn(text) {
  if (Array.isArray(text)) return text;
  if (!window.DecompressionStream) throw new Error("it holds so many operations that they are packed, and this browser cannot unpack them");
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const numbers = [];
  let value = 0, place = 1;
  for (const byte of new Uint8Array(await new Response(stream).arrayBuffer())) {
    value += (byte & 127) * place;
    place *= 128;
    if (byte < 128) {
      numbers.push(value);
      value = 0;
      place = 1;
    }
  }
  return numbers;
}

const list = (length, make) => Array.from({ length }, make);

// What reads numbers one by one: as they are, with a sign, or so many from their differences.
function reader(numbers) {
  let at = 0;
  const next = () => numbers[at++];
  const signed = () => { const value = next(); return value % 2 ? -(value + 1) / 2 : value / 2; };
  return { next, signed, differences(count) { let sum = 0; return list(count, () => (sum += signed())); } };
}

// The inverse of data.packed.
function unpacked({ P, U, sent: { source: { length: sent = 0 } = {} } = {} }, numbers) {
  const { next, signed, differences } = reader(numbers);
  const columns = list(P + 2 * next(), () => {
    const length = next(), sorts = list(next(), () => [next(), next() - 1]);
    return list(length, () => sorts[next()]);
  });
  const pairs = new Map();
  const orders = columns.map(column => {
    const last = [];
    const number = row => row * U + (last[row] = (last[row] ?? -1) + 1 + signed());
    return column.map(([row, other]) => {
      const task = number(row);
      if (other >= 0) pairs.set(task, number(other));
      return task;
    });
  });
  const count = next(), before = differences(count), after = differences(count);
  const each = () => next() ? differences(orders.flat().length + sent) : null;
  return { orders, pairs, waits: before.map((earlier, i) => [earlier, after[i]]), late: each(), lengths: each(), arrived: each() };
}

// A schedule, `s`: what data.py says of it, the graph of its tasks as pipesched.pipeline.plan.lowering makes it, orders and
// times. P, S, M count devices, stages, microbatches, U slices of all microbatches (M without slices, of which each has n).
// A pair is the task of its forward. Times are ticks, `per` a unit.

async function scheduleOf(data) {
  const { devices: P, stages: S, microbatches, rounds = 1 } = data.problem, { slices: n = 1 } = data, M = microbatches * rounds, U = M * n;
  const passes = data.letters.length * S * U, seconds = new Set(data.second);
  const { signs = [...data.letters], names = [], beside = [] } = data.step || {};
  const s = { ...data, kinds: [...data.kinds, ...names], signs, P, S, M, n, U, passes, others: beside, seconds, edits: 0, cache: {} };
  if (data.queue) addMessages(s, data.queue, await numbersIn(data.queue.numbers));
  const size = s.size = passes + s.others.length;
  s.numbers = new Map(s.others.map(([text], i) => [text, passes + i]));
  assign(s, data.plan.packed ? unpacked(s, await numbersIn(data.plan.packed)) : named(s, data.plan), {
    task: Int32Array.from({ length: size }, (_, number) => number),
    present: new Uint8Array(size),
    machine: untold(size),
    there: new Float64Array(size), // of a measured one: when the message was there that a task waited for
  });
  s.listed = [...s.orders.flat(), ...list(s.sent ? s.sent.source.length : 0, (_, i) => s.sent.first + i)]; // as starts and lengths stand
  if (s.sent) addLines(s);
  s.orders.forEach((order, machine) => order.forEach(t => { s.present[t] = 1; s.machine[t] = machine; }));
  for (const [forward, backward] of s.pairs) {
    s.present[backward] = 1;
    s.task[backward] = forward;
  }
  fillColumns(s);
  if (s.lengths) s.listed.forEach((t, place) => { [s.duration[t], s.there[t]] = [s.lengths[place], s.arrived[place]]; });
  return assign(s, arcsInto(size, use => eachArc(s, use)));
}

// A number for each of so many things that nothing is known of yet: -1.
const untold = size => new Int32Array(size).fill(-1);

// A value of a schedule that its times decide, made when first asked for.
const cached = (s, key, make) => (key in s.cache ? s.cache[key] : (s.cache[key] = make(s)));

const rowOf = (s, number) => floor(number / s.U);
const microbatchOf = (s, number) => (number < s.passes ? floor((number % s.U) / s.n) : ofStep(s, number)[3]); // -1: of none
const stageOf = (s, number) => (number < s.passes ? rowOf(s, number) % s.S : ofStep(s, number)[2]); // of side work its item
const kindOf = (s, number) => (number < s.passes ? floor(rowOf(s, number) / s.S) : ofStep(s, number)[1]);
const countOf = (s, number) => (microbatchOf(s, number) < 0 ? stageOf(s, number) : microbatchOf(s, number)); // what tells it from others
const sliced = (s, number) => `${countOf(s, number)}${s.n > 1 && number < s.passes ? `.${number % s.n}` : ""}`;
const opText = (s, number) => ofStep(s, number)?.[0] ?? `${stageOf(s, number)}${s.letters[kindOf(s, number)]}${sliced(s, number)}`;
const partsOf = (s, t) => (s.pairs.has(t) ? [t, s.pairs.get(t)] : [t]);
const ofDevice = (s, t) => s.machine[t] < s.P;

function slotText(s, t) {
  const texts = partsOf(s, t).map(part => opText(s, part));
  return texts.length > 1 ? `(${texts.join(";")})OVERLAP_F_B` : texts[0];
}

// The task that a text names: an operation, a pair, or either part of one; -1 where none runs.
function taskOf(s, text) {
  const [number, backward] = numbersOf(s, String(text)) || [-1];
  if (backward >= 0) return s.pairs.get(number) === backward ? number : -1;
  return s.present[number] ? s.task[number] : -1;
}

const turns = (s, number) => s.seconds.has(microbatchOf(s, number)); // the other direction

// What an entry says of an operation: the number of all, or [number of the column that has it unit by unit].
const entryOf = (s, entry, number) => (entry.length ? s.columns[entry[0]][number % s.U] : entry);

function deviceOf(s, number) {
  if (number >= s.passes) return ofStep(s, number)[5];
  const device = s.placement[stageOf(s, number)];
  return turns(s, number) ? s.P - 1 - device : device;
}

// What each task lasts, takes at its start and gives back at its end.
function fillColumns(s) {
  const column = at => Float64Array.from({ length: s.size }, (_, number) => {
    if (number >= s.passes) return at ? 0 : ofStep(s, number)[4];
    return s.present[number] && entryOf(s, s.rows[rowOf(s, number)][at], number);
  });
  [s.duration, s.takes, s.gives] = [0, 1, 2].map(column);
  for (const [row, size] of s.given) { // forwards are the first rows
    for (let unit = 0; unit < s.U; unit++) if (s.present[row * s.U + unit]) s.gives[(row % s.S) * s.U + unit] = entryOf(s, size, unit);
  }
  for (const [forward, backward] of s.pairs) {
    s.duration[forward] = s.overlap ? entryOf(s, s.overlap[stageOf(s, forward)], forward) : s.duration[forward] + s.duration[backward];
    s.gives[forward] += s.gives[backward];
  }
}

// Calls use(before, after, lag, boundary, whether it is an input) for each arc: first the inputs, then the wait edges.
// An input is of the same unit, or of another slice or round of the same microbatch: `further` says how many further on.
// A message stands instead of the input that it brings.
function eachArc(s, put) {
  const { n, U, arcs, waits, present, task } = s, use = s.sent ? (a, b, ...more) => { if (!isSent(s, a, b, ...more)) put(a, b, ...more); } : put;
  for (const [before, after, lag, boundary, from = 0, to = U, further = 0] of arcs) {
    for (let unit = from; unit < to; unit++) {
      const other = unit + further, a = before * U + other, b = after * U + unit;
      if (present[a] && present[b] && (n === 1 || floor(other / n) === floor(unit / n))) use(task[a], task[b], entryOf(s, lag, unit), boundary, 1);
    }
  }
  eachStepArc(s, use);
  for (const [a, b] of waits) use(task[a], task[b], 0, -1, 0);
  if (s.sent) eachMessageArc(s, put);
}

// Arcs by the task where they end, those of task t at first[t] .. first[t + 1].
function arcsInto(size, each) {
  const first = new Int32Array(size + 2);
  each((_, after) => { first[after + 2]++; });
  for (let i = 2; i < first.length; i++) first[i] += first[i - 1];
  const [before, boundary, lag, isInput] = [Int32Array, Int32Array, Float64Array, Uint8Array].map(Kind => new Kind(first[size + 1]));
  each((from, after, gap, hop, input) => {
    const arc = first[after + 1]++;
    before[arc] = from;
    boundary[arc] = hop;
    lag[arc] = gap;
    isInput[arc] = input;
  });
  return { first, before, boundary, lag, isInput };
}

// The same the other way round: in `before` are the tasks that wait for a task.
const usersOf = s => (s.users ??= arcsInto(s.size, use => eachArc(s, (before, after, lag) => use(after, before, lag))));

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

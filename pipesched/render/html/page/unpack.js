// From the data of the page to numbers: an operation is (kind * stages + stage) * microbatches + microbatch.

// What a text names: a number, or for a pair [forward, backward]; null for what is no operation of the problem.
function numberOf(shape, text) {
  const pair = /^\(([^;()]+);([^;()]+)\)OVERLAP_F_B$/.exec(text);
  if (pair) {
    const parts = [numberOf(shape, pair[1]), numberOf(shape, pair[2])];
    return parts.includes(null) ? null : parts;
  }
  const op = /^(0|[1-9]\d{0,8})([A-Z])(0|[1-9]\d{0,8})$/.exec(text);
  if (!op) return null;
  const [stage, kind, microbatch] = [+op[1], shape.letters.indexOf(op[2]), +op[3]];
  if (kind < 0 || stage >= shape.stages || microbatch >= shape.microbatches) return null;
  return (kind * shape.stages + stage) * shape.microbatches + microbatch;
}

// Orders of devices, then of lanes; the backwards of pairs; wait edges [before, after]; starts where they are late;
// lengths where operations have their own.
async function ordersOf(data, shape) {
  if (data.packed) return unpacked(await numbersIn(data.packed), shape);
  const pairs = new Map();
  const number = (text) => {
    const found = numberOf(shape, text);
    if (!Array.isArray(found)) return found;
    pairs.set(...found);
    return found[0];
  };
  return {
    orders: [...data.orders, ...data.lanes].map((row) => row.map(number)),
    pairs,
    waits: data.waits.map(([after, before]) => [number(before), number(after)]),
    starts: data.starts,
    lengths: data.lengths,
  };
}

async function numbersIn(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const plain = new Uint8Array(await new Response(stream).arrayBuffer());
  const numbers = new Float64Array(plain.length);
  let count = 0, value = 0, place = 1;
  for (const byte of plain) {
    value += (byte & 127) * place;
    place *= 128;
    if (byte < 128) {
      numbers[count++] = value;
      value = 0;
      place = 1;
    }
  }
  return numbers.subarray(0, count);
}

// The inverse of packing.py.
function unpacked(numbers, shape) {
  let at = 0;
  const next = () => numbers[at++];
  const signed = () => { const value = next(); return value % 2 ? -(value + 1) / 2 : value / 2; };
  const differences = (count) => { let sum = 0; return Array.from({ length: count }, () => (sum += signed())); };
  const machines = shape.devices + 2 * next();
  const columns = Array.from({ length: machines }, () => {
    const length = next(), sorts = Array.from({ length: next() }, () => [next(), next() - 1]);
    return Array.from({ length }, () => sorts[next()]);
  });
  const pairs = new Map();
  const orders = columns.map((column) => {
    const last = new Map();
    const number = (row) => {
      const microbatch = (last.has(row) ? last.get(row) : -1) + 1 + signed();
      last.set(row, microbatch);
      return row * shape.microbatches + microbatch;
    };
    return column.map(([row, other]) => {
      const forward = number(row);
      if (other >= 0) pairs.set(forward, number(other));
      return forward;
    });
  });
  const count = next(), before = differences(count), after = differences(count);
  const waits = before.map((earlier, entry) => [earlier, after[entry]]);
  const slots = orders.reduce((sum, order) => sum + order.length, 0);
  const starts = next() ? differences(slots) : null, lengths = next() ? differences(slots) : null;
  return { orders, pairs, waits, starts, lengths };
}

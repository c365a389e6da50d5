// Messages in queues, `s.sent` as data.queue_data says it: each is a task, numbered behind all others, which stands with those
// of its sender to its receiver in a line, behind the transfers; what else its queues make it wait for are arcs. Pages without queues
// leave this file out: others ask it only where `s.sent` is.

const LETTERS = "FBEG"; // of the operations that make them

function addMessages(s, { queue, tones, names, sizes }, numbers) {
  const { next, differences } = reader(numbers), count = next(), first = s.passes + s.others.length, kind = s.kinds.length;
  const [letter, place, unit, source, target, lasts] = list(6, () => differences(count));
  const programs = list(s.P, () => {
    const length = next(), ends = differences(length), after = differences(length);
    return ends.map((end, i) => ({ t: first + (end >> 1), sends: end % 2, after: after[i] }));
  });
  const [sender, receiver] = [1, 0].map(sends => {
    const found = untold(count);
    programs.forEach((program, device) => program.forEach(end => { if (end.sends === sends) found[end.t - first] = device; }));
    return found;
  });
  s.sent = { queue, sizes, first, unit, source, target, sender, receiver, programs };
  s.kinds = [...s.kinds, ...names];
  s.signs = [...s.signs, ...[...LETTERS].map(one => `SEND_${one}`)];
  s.others = [...s.others, ...list(count, (_, i) => {
    const item = `${floor(unit[i] / s.n)}${s.n > 1 && letter[i] < 2 ? `.${unit[i] % s.n}` : ""}`;
    return [`${place[i]}SEND_${LETTERS[letter[i]]}${item}`, kind + letter[i], place[i], floor(unit[i] / s.n), lasts[i], sender[i], tones[letter[i]]];
  })];
}

const other = ({ sent }, t, device) => [sent.sender, sent.receiver].map(column => column[t - sent.first]).find(one => one !== device);

// The messages of a device by the other one: those that it sends, or all.
function byOther(s, device, isWanted) {
  const found = new Map();
  for (const end of s.sent.programs[device].filter(isWanted)) {
    const there = other(s, end.t, device);
    if (!found.has(there)) found.set(there, []);
    found.get(there).push(end.t);
  }
  return [...found].sort((a, b) => a[0] - b[0]);
}

function addLines(s) {
  const at = s.orders.length - (s.step ? s.P : 0), { sent } = s;
  sent.lines = list(s.P, (_, device) => byOther(s, device, end => end.sends).map(([there, order]) => ({ device, there, order }))).flat();
  sent.lines.forEach((line, i) => { line.machine = at + i; });
  sent.ways = new Set(sent.source.map((from, i) => from * s.size + sent.target[i]));
  s.orders.splice(at, 0, ...sent.lines.map(line => line.order));
}

// What goes one after another: in whose order the sender's line says not all.
function* queuesOf(s) {
  const { sent } = s;
  for (let device = 0; device < s.P; device++) {
    const program = sent.programs[device];
    if (sent.queue === "pair") for (const [, row] of byOther(s, device, () => true)) yield row;
    if (sent.queue === "rank") yield program.map(end => end.t);
    if (sent.queue === "device") yield merged(s, device);
  }
}

// All that a device issues: its slots, and its messages behind them.
function merged(s, device) {
  const program = s.sent.programs[device], row = [];
  let next = 0;
  for (const slot of [-1, ...s.orders[device]]) {
    if (slot >= 0) row.push(slot);
    for (; next < program.length && program[next].after === slot; next++) row.push(program[next].t);
  }
  return row;
}

function eachMessageArc(s, use) {
  const { first, source, target } = s.sent;
  source.forEach((from, i) => {
    use(from, first + i, 0, -1, 1);
    use(first + i, target[i], 0, -1, 1);
  });
  for (const row of queuesOf(s)) for (let i = 1; i < row.length; i++) if (max(row[i - 1], row[i]) >= first) use(row[i - 1], row[i], 0, -1, 0);
}

// Whether an input over a boundary comes by a message; the next token of a round does not.
const isSent = (s, before, after, lag, boundary) => boundary >= 0 && s.sent.ways.has(before * s.size + after);

// The boundary that a message crosses, -1 for one of side work.
const crossedBy = (s, t) => (kindOf(s, t) < s.kinds.length - 2 ? stageOf(s, t) - (letterOf(s, t) === "SEND_B") : -1);

// The name of an end: a receiver is on the next stage, or on the one before.
const endText = (s, t, sends) => (sends ? opText(s, t) : opText(s, t).replace(/^(\d+)SEND_(.)/, (_, at, kind) => `${+at + ({ F: 1, B: -1 }[kind] || 0)}RECV_${kind}`));

const madeAt = (s, t) => s.ends[s.sent.source[t - s.sent.first]];

// When a device issues each message: all at once, or where they hold devices when it has come to them.
const issuedBy = (s, device) => cached(s, `issued${device}`, () => {
  const row = s.sent.queue === "device" ? merged(s, device) : [];
  return new Map(row.map((t, i) => [t, i ? s.ends[row[i - 1]] : 0]));
});

function messageText(s, t) {
  const [from, to] = [s.sent.sender, s.sent.receiver].map(column => column[t - s.sent.first]), issued = device => time(s, issuedBy(s, device).get(t) || 0);
  return `${opText(s, t)}: device ${from} to ${to}, issued ${[...new Set([from, to].map(issued))].join(" and ")}, made ${time(s, madeAt(s, t))}, starts ${time(s, s.starts[t])}, ends ${time(s, s.ends[t])}`;
}

// The lanes below a device, as charts have them: name, the messages that take time, and the lines whose place that is.
const messageLanes = (s, device) => {
  const { queue, programs, lines } = s.sent, own = lines.filter(line => line.device === device);
  const rows = queue === "edge" ? byOther(s, device, end => end.sends).map(([there, row]) => [`to ${there}`, row, there])
    : queue === "pair" ? byOther(s, device, () => true).map(([there, row]) => [`msg ${there}`, row, there]) : [["msg", programs[device].map(end => end.t), -1]];
  return rows.map(([name, row, there]) => ({
    name, order: row.filter(t => s.duration[t]).sort((a, b) => s.starts[a] - s.starts[b]), lines: own.filter(line => there < 0 || line.there === there),
  })).filter(lane => lane.order.length);
};

// The changes [time, grains] of receive buffers, of messages between stages: from their issue until what needs them has ended.
const bufferChanges = (s, device) => s.sent.programs[device].filter(({ t, sends }) => !sends && crossedBy(s, t) >= 0).flatMap(({ t }) => {
  const size = s.sent.sizes[s.sent.unit[t - s.sent.first]];
  return [[issuedBy(s, device).get(t) || 0, size], [s.ends[s.sent.target[t - s.sent.first]], -size]];
});

// The parts of a gap of a device: [from, to, the message that holds it, or -1].
function freeParts(s, device, start, end) {
  const found = [], held = s.sent.queue === "device" ? cached(s, `held${device}`, () => s.sent.programs[device].map(one => one.t).sort((a, b) => s.starts[a] - s.starts[b])) : [];
  for (const t of held) {
    if (s.starts[t] >= end || s.ends[t] <= start) continue;
    if (s.starts[t] > start) found.push([start, s.starts[t], -1]);
    found.push([max(start, s.starts[t]), min(end, s.ends[t]), t]);
    start = max(start, s.ends[t]);
  }
  return start < end ? [...found, [start, end, -1]] : found;
}

// What a message stands behind that a device waits for, as explain says it.
function queueWords(s, { start, culprit, waiting }) {
  const before = reasons(s).queuedBehind(culprit), who = `${waiting < 0 ? "all done here; " : `${slotText(s, waiting)} waits: `}message ${opText(s, culprit)}`;
  if (before < 0 || start >= s.starts[culprit]) return `${who} is on its way`;
  if (!isMessage(s, before)) return `${who} stands behind ${slotText(s, before)}, which runs until ${time(s, s.ends[before])}`;
  for (const program of s.sent.programs) {
    const [here, there] = [before, culprit].map(t => program.findIndex(end => end.t === t));
    if (here >= 0 && there >= 0) return `${who} stands behind ${endText(s, before, program[here].sends)}, issued ${there - here} earlier, whose sender runs until ${time(s, madeAt(s, before))}`;
  }
  return `${who} is on its way`;
}

const queueDocument = s => s.sent.programs.map(program => program.map(({ t, sends, after }) => ({
  op: endText(s, t, sends), start: s.starts[t] / s.per, end: s.ends[t] / s.per, after: after < 0 ? null : slotText(s, after),
})));

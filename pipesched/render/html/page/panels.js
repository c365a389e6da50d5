// Panels around the chart, then the state in the address.

// What stands around the chart: numbers, sentences, details and tables. Text from users is only ever set as text.

const MOST_ROWS = 199, LISTED = 64, MOST_COSTS = 40; // with its head a table has at most 200 rows
const show = (id, text) => { $(id).textContent = text; };
const say = sentence => show("live", sentence);

function element(name, text = "", attributes = {}) {
  const made = assign(document.createElement(name), { textContent: text });
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function fillTable(id, titles, rows, { caption, sums = 0, dress } = {}) {
  const head = element("thead"), body = element("tbody"), line = (cells, cell) => {
    const row = element("tr");
    row.append(...cells.map(cell));
    return row;
  };
  head.append(line(titles, title => element("th", title, { scope: "col" })));
  rows.forEach((cells, at) => {
    const row = line(cells, (text, column) => (column ? element("td", text) : element("th", text, { scope: "row" })));
    if (at >= rows.length - sums) row.className = "sum";
    if (dress) dress(row, at);
    body.append(row);
  });
  $(id).replaceChildren(...(caption ? [element("caption", caption)] : []), head, body);
}

let best = null; // the shortest of several that fit their budgets
const starred = s => `${s.name}${s === best ? " ★" : ""}`;

function showNumbers() {
  const s = shown(), { makespan, bubble } = totals(s);
  show("makespan", `${makespan / s.per}${unit}${difference(s)}`);
  show("bubble", percent(bubble));
  const { layout } = s.problem, few = layout && layout.length < 17;
  const layers = layout ? `, layers ${few ? layout.join(", ") : `${min(...layout)} to ${max(...layout)} a stage`}` : "";
  show("which", `${s.name}${layers}${s.edits ? `, ${s.edits} edit${s.edits > 1 ? "s" : ""}` : ""}`);
}

// The numbers that take a while: bound, memory, and the table of schedules.
function showMetrics() {
  const s = shown(), { memory, fits: fit } = metrics(s), [bound, covers] = shownBound(s, fit), open = totals(s).makespan - bound;
  show("bound", `${short(bound / s.per)}${unit} (${open ? `gap ${percent(bound && open / bound)}` : "optimal"}) for ${covers}`);
  show("memory", `${short(max(...memory))} ${s.problem.memory.unit}${fit ? "" : ", over budget"}`);
  $("memory").className = fit ? "" : "bad";
  $("sheets").hidden = sheets.length < 2 && !page.remarks.length;
  const before = best, fitting = sheets.filter(one => metrics(one).fits), least = min(...fitting.map(one => totals(one).makespan / one.per));
  best = sheets.length > 1 ? fitting.find(one => totals(one).makespan / one.per === least) : null;
  if (best !== before) redraw();
  const overBy = one => short(max(...one.capacity.map((_, device) => excess(one, device))) / one.grain);
  fillTable("all", ["schedule", "makespan", "bubble", "memory", "budget"], sheets.map(one => [
    starred(one), time(one, totals(one).makespan) + difference(one), percent(totals(one).bubble),
    short(max(...metrics(one).memory)), metrics(one).fits ? "fits" : `over by ${overBy(one)}`,
  ]), { caption: page.remarks.join("; "), dress: (row, at) => row.setAttribute("aria-current", at === current) });
}

function showVerified() {
  const wrong = sheets.filter(s => totals(s).makespan !== s.stored);
  const parts = wrong.map(s => `${time(s, totals(s).makespan)} for ${s.name}, stored is ${time(s, s.stored)}`);
  const late = sheets.some(s => s.isLate) ? "; some operations start later than they could, until the first edit" : "";
  const each = sheets.length > 1 ? ", of every schedule" : "";
  $("verified").className = wrong.length ? "bad" : "";
  show("verified", wrong.length ? `Not verified: this page computes ${parts.join("; ")}.`
    : `Verified: the makespan computed here equals the stored one${each}${late}.`);
}

function placeText(s, t) {
  const lane = s.machine[t] - s.P;
  if (isMessage(s, t)) return `messages ${s.sent.sender[t - s.sent.first]} to ${s.sent.receiver[t - s.sent.first]} position ${placeOf(s, t)}`;
  return `${lane < 0 ? `device ${s.machine[t]}` : isNetwork(s, t) ? `network ${lane - 2 * lanePairs(s)}` : `lane ${lane >> 1} ${lane % 2 ? "back" : "out"}`} position ${placeOf(s, t)}`;
}

const spanText = (s, t) => `${time(s, s.starts[t])} to ${time(s, s.ends[t])}`;
const gapsOn = (s, device) => cached(s, `gaps${device}`, () => gapsOf(s).filter(gap => gap.device === device));

function showDetails() {
  if (!picked) return;
  const { s, t } = picked, { slack } = reasons(s), list = element("dl");
  const put = (name, text) => { if (text) list.append(element("dt", name), element("dd", text)); };
  const whole = partsOf(s, t).map(part => {
    const what = s.kinds[kindOf(s, part)], stage = stageOf(s, part);
    if (microbatchOf(s, part) < 0) return `${what} of stage ${stage}`;
    return `${what} of microbatch ${sliced(s, part)} ${isOfSide(letterOf(s, part)) ? "of side item" : "on stage"} ${stage}`;
  });
  put("operation", `${slotText(s, t)}: ${whole.join(", with ")}`);
  put("where", placeText(s, t));
  put("message", isMessage(s, t) && messageText(s, t));
  put("runs", `${spanText(s, t)}${unit}`);
  put("slack", slack[t] ? time(s, slack[t]) : "0, critical");
  const inputs = inputsOf(s, t).map(one => `${slotText(s, one.t)} (${one.what}, ${time(s, one.there)}${one.binds ? ", binds" : ""})`);
  put("waits for", inputs.join("; ") || "nothing");
  put("moves", fixed(s));
  if (ofDevice(s, t) && !fixed(s)) {
    const { first, last, position } = openPlaces(s, t);
    put("legal positions", first === last ? `${first} alone` : `${first} to ${last}`);
    const makespan = to => {
      if (to < first || to > last) return "not legal";
      return time(s, totals(timed(s, moved(s.orders, s.machine[t], position, to))).makespan);
    };
    put("makespan if moved", `left: ${makespan(position - 1)}, right: ${makespan(position + 1)}`);
  }
  if (ofDevice(s, t)) put("gap before", gapsOf(s).filter(gap => gap.waiting === t).map(gap => `${time(s, gap.end - gap.start)} ${page.idle[gap.idle][0]}`).join(", "));
  $("details").replaceChildren(list);
}

// The device from which the last input of a task came.
const senderOf = (s, t) => inputsOf(s, t).filter(one => one.what === "input" && (ofDevice(s, one.t) || isMessage(s, one.t)))
  .sort((a, b) => b.there - a.there).map(one => s.machine[isMessage(s, one.t) ? s.sent.source[one.t - s.sent.first] : one.t]).find(device => device !== s.machine[t]);

function gapSentence(s, { device, start, end, idle, culprit, waiting }) {
  const by = slotText(s, culprit), more = min(s.there[culprit], s.starts[culprit]) - reasons(s).allowed[culprit], next = waiting < 0 ? null : slotText(s, waiting);
  const words = {
    order: `${by} could run, but ${next} comes first in the order`,
    memory: `${by} could run, but its activation does not fit the budget`,
    late: `${by} starts later than it could`,
    queue: idle === "queue" && queueWords(s, { start, culprit, waiting }),
    message: `${by}'s input from device ${senderOf(s, culprit)} took ${time(s, more)}${unit} longer than planned`,
    runtime: `${by} could run, the rank had not begun it`,
  }[idle] || (!next ? `all done here; ${by} still runs`
    : `${next} waits for ${idle === "transfer" && ofDevice(s, culprit) ? "the transfer after " : ""}${by}`);
  return `device ${device} idles from ${time(s, start)} to ${time(s, end)}, ${page.idle[idle][0]}: ${words}`;
}

const byLength = s => gapsOf(s).slice().sort((a, b) => b.end - b.start - (a.end - a.start) || a.device - b.device || a.start - b.start);

function showReasons() {
  const s = shown(), { makespan, idle, busy, allIdle } = totals(s), names = Object.keys(page.idle), rows = idleByClass(s, names);
  const sum = name => rows.reduce((all, row) => all + row[name], 0), used = names.filter(sum);
  const cell = ticks => (ticks ? time(s, ticks) : "."), share = ticks => `${((ticks / (s.P * makespan || 1)) * 100).toFixed(1)}%`;
  fillTable("reasons", ["idle", ...used.map(name => page.idle[name][0]), "all"], [
    ...rows.slice(0, LISTED).map((row, device) => [`device ${device}`, ...used.map(name => cell(row[name])), cell(idle[device])]),
    ...[["sum", cell], ["share", share]].map(([title, text]) => [title, ...used.map(name => text(sum(name))), text(allIdle)]),
  ], { sums: 2, caption: s.P > LISTED ? `first ${LISTED} of ${s.P} devices, sum of all` : "" });
  const least = max(s.P * s.per * metrics(s).lower_bound - busy.reduce((a, b) => a + b), 0), open = time(s, allIdle - least);
  show("avoidable", open === "0" ? "Proved: no order avoids any of it." : `No order avoids ${time(s, least)} of it; ${open} is open.`);
  $("gaps").replaceChildren(...byLength(s).slice(0, 10).map(gap => element("li", gapSentence(s, gap))));
  showCosts(s);
}

function showCosts(s) {
  if (isLarge(s) && !("sensitivities" in early(s).cache)) {
    const button = element("button", "Compute, which takes seconds"), caption = element("caption");
    button.addEventListener("click", () => { sensitivities(early(s)); showCosts(s); });
    caption.append(button);
    $("costs").replaceChildren(caption);
    return;
  }
  const costs = sensitivities(early(s)).filter(row => row.faster || row.slower);
  costs.sort((a, b) => b.faster * b.cost - a.faster * a.cost || b.slower - a.slower);
  const name = ({ kind, stage, boundary: at }) => (kind ? `${s.kinds[s.signs.indexOf(kind)] || kind} of ${isOfSide(kind) ? "side item" : "stage"} ${stage}` : `p2p ${at}-${at + 1}`);
  fillTable("costs", ["cost", "a unit less", "a unit more"], costs.slice(0, MOST_COSTS).map(row => [name(row), row.faster ? `-${row.faster}` : "0", `+${row.slower}`]),
    { caption: `makespan with the order fixed${s.isLate ? ", at its earliest times" : ""}` });
}

function showOperations() {
  const all = scene.rows.flatMap(row => tasksSeen(row).filter(t => rowOn(row.s, row.s.machine[t]) === row).slice(0, MOST_ROWS).map(t => ({ s: row.s, t }))), several = sheets.length > 1;
  const listed = all.slice(0, MOST_ROWS), span = [view.from, view.to].map(value => short(value, 6)).join(" to ");
  fillTable("table", ["operation", ...(several ? ["schedule"] : []), "where", "start", "end"], listed.map(({ s, t }) => [
    slotText(s, t), ...(several ? [s.name] : []), placeText(s, t), time(s, s.starts[t]), time(s, s.ends[t]),
  ]), {
    caption: `${span}${unit}${all.length > listed.length ? `, the first ${MOST_ROWS}` : ""}`,
    dress(row, at) {
      const { s, t } = listed[at];
      if (picked && picked.s === s && picked.t === t) row.setAttribute("aria-selected", "true");
      row.addEventListener("click", () => choose(s, t));
    },
  });
}

function showCursor() {
  const row = rowAt(pointer.y), s = row ? row.s : shown(), value = timeAt(pointer.x);
  const hit = slotAt(pointer.x, pointer.y), message = hit && isMessage(hit.s, hit.t) ? `${messageText(hit.s, hit.t)}; ` : "";
  const texts = Array.from({ length: s.P }, (_, device) => `device ${device} ${cursorText(s, device, value)}`);
  show("cursor", `${message}at ${short(value, 5)}: ${texts.join(", ")}`);
}

// The state in the address: #t=FROM-TO&s=I:OP&m=I:OP@N,I:OP@N. Frames of notebooks have no address: then nothing is kept.

const BURST = 90, EACH_SECOND = 9; // writes: browsers ignore more than 200 in ten seconds
let writes = BURST, lastWrite = 0, waitingWrite = 0;
const inFile = s => s.index < page.schedules.length; // kept copies are not

function linkText() {
  const parts = [], entry = (s, t) => `${s.index}:${encodeURIComponent(slotText(s, t))}`;
  const moves = edits.done.filter(edit => inFile(edit.s)).map(({ s, t, to }) => `${entry(s, t)}@${to}`);
  if (!view.whole) parts.push(`t=${short(view.from)}-${short(view.to)}`);
  if (picked && inFile(picked.s)) parts.push(`s=${entry(picked.s, picked.t)}`);
  if (moves[0]) parts.push(`m=${moves.join(",")}`);
  return `#${parts.join("&")}`;
}

function writeLink(soon = false) {
  clearTimeout(waitingWrite);
  const now = performance.now();
  writes = min(BURST, writes + ((now - lastWrite) / 1000) * EACH_SECOND);
  lastWrite = now;
  if (soon || writes < 1) { waitingWrite = setTimeout(writeLink, 250); return; }
  writes--;
  try { if (location.hash !== linkText()) history.replaceState(null, "", linkText()); } catch { /* a frame without address */ }
}

// Restores what a link says; returns what of it cannot be, in words.
function readLink(hash) {
  const skipped = [], skip = (text, reason = "unreadable") => skipped.push(`${text}: ${reason}`), parts = {};
  for (const part of hash.replace(/^#/, "").split("&").filter(Boolean)) {
    if (/^[tsm]=/.test(part)) parts[part[0]] = part.slice(2);
    else skip(part, "unknown");
  }
  const plain = (text = "") => { try { return decodeURIComponent(text); } catch { return text; } };
  const subject = text => {
    const [, index, op] = /^(\d+):(.+)$/.exec(text) || [], s = sheets[index];
    return s && inFile(s) ? [s, taskOf(s, op)] : [null, -1];
  };
  for (const text of (parts.m || "").split(/,|%2C/i).filter(Boolean).map(plain)) {
    const [, op, to] = /^(.*)@(\d+)$/.exec(text) || [], [s, t] = subject(op || "");
    const refusal = t < 0 ? "unreadable" : changeOrder(s, t, +to);
    if (refusal) skip(text, refusal);
  }
  const number = String.raw`(\d+(?:\.\d+)?(?:e[+-]?\d+)?)`, [, from, to] = new RegExp(`^${number}-${number}$`, "i").exec(plain(parts.t)) || [];
  if (+from < +to && +from < totalTime() * 1.02) setWindow(+from, +to);
  else if ("t" in parts) skip(`t=${plain(parts.t)}`);
  if ("s" in parts) {
    const [s, t] = subject(plain(parts.s));
    if (t < 0) skip(`s=${plain(parts.s)}`);
    else [picked, current] = [{ s, t }, s.index];
  }
  return skipped;
}

function openLink() {
  fitAll();
  const skipped = readLink(location.hash);
  if (skipped[0]) say(`Left out of the link: ${skipped.join("; ")}.`);
  else if (picked) choose(picked.s, picked.t);
}

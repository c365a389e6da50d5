// The state in the address: #t=FROM-TO&s=I:OP&m=I:OP@N,I:OP@N. Frames of notebooks have no address: then nothing is kept.

let writes = 40, lastWrite = 0, waitingWrite = 0; // browsers allow about 100 changes in 30 seconds

function linkText() {
  const parts = [], entry = (sheet, task) => `${sheet.index}:${encodeURIComponent(textOf(sheet, task))}`;
  const kept = edits.done.filter((edit) => edit.sheet.index < loadedCount);
  if (!view.whole) parts.push(`t=${numberText(view.from)}-${numberText(view.to)}`);
  if (selection && selection.sheet < loadedCount) parts.push(`s=${entry(sheets[selection.sheet], selection.task)}`);
  if (kept.length) parts.push(`m=${kept.map((edit) => `${entry(edit.sheet, edit.task)}@${edit.to}`).join(",")}`);
  return `#${parts.join("&")}`;
}

function writeLink() {
  clearTimeout(waitingWrite);
  const now = performance.now();
  writes = Math.min(40, writes + ((now - lastWrite) / 1000) * 2);
  lastWrite = now;
  if (writes < 1) { waitingWrite = setTimeout(writeLink, 600); return; }
  writes--;
  try { if (location.hash !== linkText()) history.replaceState(null, "", linkText()); } catch { /* a frame without address */ }
}

const writeLinkSoon = () => { clearTimeout(waitingWrite); waitingWrite = setTimeout(writeLink, 250); };

// Restores what a link says; returns what of it cannot be, in words.
function readLink(hash) {
  const skipped = [], skip = (text, why) => skipped.push(`${text}: ${why}`);
  const parts = new Map();
  for (const part of hash.replace(/^#/, "").split("&").filter(Boolean)) {
    const at = part.indexOf("=");
    if (!"tsm".includes(part[0]) || at !== 1) skip(part, "unknown");
    else parts.set(part[0], part.slice(2));
  }
  const plain = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
  const subject = (text) => {
    const [, index, op] = /^(\d+):(.+)$/.exec(text) || [], sheet = index < loadedCount ? sheets[index] : null;
    return sheet ? [sheet, taskOf(sheet.graph, op)] : [null, -1];
  };
  const listed = (parts.get("m") || "").split(/,|%2C/i);
  for (const text of listed.filter(Boolean).map(plain)) {
    const [, op, to] = /^(.*)@(\d+)$/.exec(text) || [], [sheet, task] = subject(op || "");
    if (task < 0) { skip(text, "unreadable"); continue; }
    const refusal = changeOrder(sheet, task, +to);
    if (refusal) skip(text, refusal);
  }
  const number = String.raw`(\d+(?:\.\d+)?(?:e[+-]?\d+)?)`;
  const range = parts.has("t") ? new RegExp(`^${number}-${number}$`, "i").exec(plain(parts.get("t"))) : null;
  if (range && +range[1] < +range[2] && +range[1] < totalTime() * 1.02) setWindow(+range[1], +range[2]);
  else if (parts.has("t")) skip(`t=${plain(parts.get("t"))}`, "unreadable");
  if (parts.has("s")) {
    const [sheet, task] = subject(plain(parts.get("s")));
    if (task < 0) skip(`s=${plain(parts.get("s"))}`, "unreadable");
    else { selection = { sheet: sheet.index, task }; current = sheet.index; }
  }
  return skipped;
}

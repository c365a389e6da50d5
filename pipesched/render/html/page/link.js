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

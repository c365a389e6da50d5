// The only plain script of the page: it unpacks the program (gzip, as base64) and runs it as a script element.

document.documentElement.className = "js";
window.pipesched = {};
window.pipesched.ready = (async () => {
  const bytes = Uint8Array.from(atob(document.getElementById("program").textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = `(() => {"use strict";${await new Response(stream).text()}})()\n//# sourceURL=pipesched.js`;
  document.body.append(script);
  await window.pipesched.start();
})().catch((error) => {
  const told = document.getElementById("verified");
  told.className = "bad";
  told.textContent = `This page cannot show the schedule: ${error.message}`;
  throw error;
});

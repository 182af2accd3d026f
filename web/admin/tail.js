// The live page: rows are put on top as they come, and in their place when they change. The browser's EventSource comes
// back by itself when the connection breaks, and goes on where it was.

const most = 200; // rows on the page, and rows that wait while it is paused
const place = document.querySelector("[data-tail]");
const table = document.querySelector("table[data-rows]");
const state = place.querySelector("[data-state]");
const button = place.querySelector("button[data-pause]");
const words = place.dataset;

let waiting = null; // rows by their ID while paused
let connected = false;

function say() {
  if (waiting !== null) state.textContent = words.paused.replace("{n}", waiting.size);
  else state.textContent = connected ? words.live : words.lost;
}

function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html; // drawn and escaped by the server
  return template.content.firstElementChild;
}

function draw(row) {
  const before = document.getElementById(row.id);
  if (before === null) table.tBodies[0].prepend(row);
  else if (before.contains(document.activeElement)) { // keep the focus where it is
    before.replaceWith(row);
    row.querySelector("a[data-row]")?.focus({ preventScroll: true });
  } else before.replaceWith(row);
  row.dispatchEvent(new CustomEvent("sendcode:drawn", { bubbles: true }));
  while (table.tBodies[0].rows.length > most) table.tBodies[0].lastElementChild.remove();
  table.hidden = false;
  document.querySelector("[data-nothing]").hidden = true;
}

function take(html) {
  const row = parse(html);
  if (row === null) return;
  if (waiting === null) {
    draw(row);
    return;
  }
  waiting.set(row.id, row);
  if (waiting.size > most) waiting.delete(waiting.keys().next().value);
  say();
}

button.hidden = false;
button.addEventListener("click", () => {
  const held = waiting;
  waiting = held === null ? new Map() : null;
  button.textContent = held === null ? words.resume : words.pause;
  for (const row of held?.values() ?? []) draw(row);
  say();
});

let source;
let last = ""; // ID of the newest event

function connect() {
  const address = new URL(words.tail, location.href);
  if (last !== "") address.searchParams.set("newer", last);
  source = new EventSource(address);
  source.addEventListener("open", () => { connected = true; say(); });
  source.addEventListener("error", () => {
    connected = false;
    say();
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 5000); // refused: a browser does not come back then
  });
  source.addEventListener("row", (event) => { last = event.lastEventId; take(event.data); });
  source.addEventListener("gap", () => { document.querySelector("[data-gap]").hidden = false; });
}

connect();
addEventListener("pagehide", () => source.close());
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

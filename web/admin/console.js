// The keys of the console, and short forms of its times. Every page works without this script: then
// times are in UTC and have their day, and Tab and Enter replace the keys.

// The server writes times in the time zone that the reader chose, or else in the browser's. Only a
// script can find out the browser's zone, which changes on a journey. The cookie takes effect on the
// next page.
const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (own) remember("sendcode_browser_zone", encodeURIComponent(own), 31536000);
for (const button of document.querySelectorAll("button[data-local]")) button.hidden = !own || own === "UTC";

function remember(name, value, seconds) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${name}=${value}; path=/admin; max-age=${seconds}; samesite=lax${secure}`;
}

// The day of a time is left out if it is today or, in a story (data-days), if it is the day of the
// time before. Browsers order the parts of a day differently, so only the parts are requested.
const days = new Intl.DateTimeFormat("en",
    { timeZone: document.documentElement.dataset.times, year: "numeric", month: "2-digit", day: "2-digit" });
let told = { story: null, day: "" };

function shorten(element, today) {
  const date = element.querySelector(".date");
  if (date === null) return;
  const day = date.textContent.trim();
  const story = element.closest("[data-days]");
  const known = story !== null && story === told.story ? told.day : today;
  if (day === known) date.textContent = "";
  else if (story === null && day.slice(0, 4) === today.slice(0, 4)) date.textContent = `${day.slice(5)} `;
  told = { story, day };
}

function shortenIn(part) {
  const { year, month, day } = Object.fromEntries(days.formatToParts().map(({ type, value }) => [type, value]));
  for (const element of part.querySelectorAll("time")) shorten(element, `${year}-${month}-${day}`);
}

shortenIn(document);

// Waits count down: data-left has the milliseconds. data-said, if there is one, has the sentence
// around the wait.
const [seconds, minutes, hours] = document.documentElement.dataset.units.split(" ");

function lasting(s) {
  const of = (n, unit, rest, smaller) => `${n} ${unit}${rest > 0 ? ` ${rest} ${smaller}` : ""}`;
  if (s < 60) return of(s, seconds, 0);
  if (s < 3600) return of(Math.floor(s / 60), minutes, s % 60, seconds);
  const all = Math.ceil(s / 60);
  return of(Math.floor(all / 60), hours, all % 60, minutes);
}

// performance.now stands still while some machines sleep, and Date.now may be set back.
const loaded = Date.now() - performance.now();
const now = () => Math.max(performance.now(), Date.now() - loaded);

function tick() {
  for (const wait of document.querySelectorAll("[data-left]")) {
    const left = Math.ceil((Number(wait.dataset.left) - now()) / 1000);
    wait.textContent = left > 0 ? (wait.dataset.said ?? "{wait}").replace("{wait}", lasting(left)) : wait.dataset.over;
    if (left <= 0) wait.closest(".pips-row")?.classList.remove("blocked");
  }
  for (const reply of document.querySelectorAll(".reply[data-again]")) countReply(reply);
  // A verdict names times. When the first has come, the server makes another verdict.
  for (const finding of document.querySelectorAll(".finding[data-until]")) {
    if (Number(finding.dataset.until) <= now() && !document.hidden) renew(finding);
  }
}

// written is how the server writes a wait in a reply (DurationRoundedUp).
function written(patterns, s) {
  const minutes = Math.ceil(s / 60), h = Math.floor(minutes / 60), m = minutes % 60;
  const pattern = patterns[s < 60 ? 0 : h === 0 ? 1 : m === 0 ? 2 : 3];
  return pattern.replace("{s}", s).replace("{h}", h).replace("{m}", m);
}

// A reply to copy counts, too, in its own language: {wait} is the time until the person can ask
// again, and {life} that for which the code works. At the end of either, the server makes another
// reply.
function countReply(reply) {
  let over = false;
  for (const text of reply.querySelectorAll("[data-said]")) {
    const said = text.dataset.said.replace(/{(wait|life)}/g, (_, name) => {
      const left = (Number(reply.dataset[name]) - now()) / 1000;
      if (left <= 0) over = true;
      const down = name === "life" && left > 60; // the code works no longer than the reply says
      return written(text.dataset.patterns.split("|"), down ? Math.floor(left / 60) * 60 : Math.ceil(left));
    });
    if (!over && text.textContent !== said) text.textContent = said;
  }
  if (over && !document.hidden) renew(reply);
}

// renew exchanges a reply and, on a send's page, the verdict around it and the line below, except
// while the focus is in that line.
let renewing = false;
async function renew(part) {
  if (renewing) return;
  renewing = true;
  const begun = now(), whole = part.closest(".finding") ?? part;
  let fresh = null;
  try {
    const answer = await fetch(part.dataset.again);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    startAt(begun, page);
    fresh = page.querySelector(whole.matches(".finding") ? ".finding" : ".reply");
    const line = document.querySelector(".finding ~ .line"), next = page.querySelector(".finding ~ .line");
    if (fresh && whole.isConnected) {
      told = { story: null, day: "" };
      exchange(whole, fresh);
      if (line && next && !line.contains(document.activeElement)) exchange(line, next);
    }
  } catch {} // the part stays until the console answers
  setTimeout(() => { renewing = false; }, fresh ? 0 : every);
}

// startAt makes the waits in a part of a page count from the instant at which it was requested.
function startAt(begun, part) {
  for (const { dataset } of part.querySelectorAll("[data-left]")) dataset.left = Number(dataset.left) + begun;
  for (const { dataset } of part.querySelectorAll(".reply[data-again]")) {
    for (const name of ["wait", "life"]) dataset[name] = Number(dataset[name]) + begun;
  }
  for (const { dataset } of part.querySelectorAll(".finding[data-until]")) dataset.until = Number(dataset.until) + begun;
}

tick();
setInterval(tick, 1000);

// Menus close like any menu.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  const menu = event.target.closest?.("details.menu");
  if (event.key !== "Escape" || !menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

// j and k move through the rows' links, and Enter then opens a link. / moves to the search, or from a
// send's page to the list, and ? shows the keys. The other keys press what has them as data-key. The
// list of keys has a switch, for readers whose speech or other tools type.
function move(step) {
  const rows = [...document.querySelectorAll("a[data-row]")];
  const here = rows.indexOf(document.activeElement);
  const next = here < 0 ? (step > 0 ? 0 : rows.length - 1) : here + step;
  const row = rows[Math.min(Math.max(next, 0), rows.length - 1)];
  row?.focus();
  row?.closest("tr").scrollIntoView({ block: "nearest" });
}

function search() {
  const field = document.querySelector("#q");
  field?.focus();
  field?.select();
  return field !== null;
}

function press(key) {
  const named = /^[a-z/]$/.test(key) && document.querySelector(`[data-key="${key}"]:not([hidden])`);
  const element = named ? named.closest("a, button") ?? named.querySelector("a, button") : null;
  element?.click();
  return Boolean(element);
}

// The switch is kept in a cookie, because a browser that logs in here takes cookies, but may have no
// storage. Some browsers keep such a cookie only for a week, so each page writes it again.
const keysAreOff = () => /(^|; )sendcode_keys=off(;|$)/.test(document.cookie);
const keepKeysOff = (off) => remember("sendcode_keys", "off", off ? 31536000 : 0);
const keys = document.querySelector("#keys"), keysAreOn = document.querySelector("#keys-on");
if (keysAreOff()) keepKeysOff(true);
if (keysAreOn) {
  const show = () => {
    keysAreOn.checked = !keysAreOff();
    document.documentElement.toggleAttribute("data-keys-off", keysAreOff());
  };
  show();
  for (const event of ["focus", "pageshow"]) addEventListener(event, show); // another tab has the same switch
  keysAreOn.addEventListener("change", () => {
    keepKeysOff(!keysAreOn.checked);
    show();
  });
}

// commandOf returns the character of a key. A letter that is not Latin stands for the one at its
// place on an English keyboard. A letter with Shift is no command, and CapsLock changes nothing.
function commandOf(event) {
  const character = (event.key ?? "").normalize("NFKC"); // an input method may make it as wide as a Chinese one
  if (!/^\p{L}$/u.test(character)) return character;
  if (event.shiftKey || event.getModifierState("AltGraph")) return "";
  if (/^\p{Script=Latin}$/u.test(character)) return character.toLowerCase();
  return event.code.startsWith("Key") ? event.code.slice(3).toLowerCase() : "";
}

// showKeys moves the focus to the switch, so that a screen reader tells of the list. When the list
// is hidden, the browser moves the focus back.
function showKeys() {
  if (keys?.togglePopover()) keysAreOn.focus();
}

document.addEventListener("keydown", (event) => {
  if (keysAreOff() || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const command = commandOf(event);
  const typing = event.target.closest?.("input, select, textarea, [contenteditable]");
  if (typing && !(command === "?" && typing === keysAreOn)) return;
  if (event.repeat && command !== "j" && command !== "k") return;
  switch (command) {
    case "j": move(1); break;
    case "k": move(-1); break;
    case "/": if (!search() && !press("/")) return; break;
    case "?": showKeys(); break;
    default: if (!press(command)) return;
  }
  event.preventDefault();
});

// After a form that changes something was sent, its fields are read-only: a later change would not
// be sent. If the answer is a file, the page stays and may be used again.
const hold = (form, on) => { for (const field of form.elements) field.readOnly = on; };
document.addEventListener("submit", ({ target, defaultPrevented }) => {
  if (defaultPrevented || target.method !== "post" || target.matches(".search, .filter, [data-file]")) return;
  hold(target, true);
  setTimeout(() => hold(target, false), 15_000); // the answer did not come
});

// Escape also stops a page that is on its way.
addEventListener("keydown", ({ key }) => {
  if (key === "Escape") for (const form of document.forms) hold(form, false);
});

// A browser that goes back restores what was typed and chosen after the page was made. The filters
// then say again what the rows are, and no field is read-only.
addEventListener("pageshow", ({ persisted }) => {
  if (!persisted && performance.getEntriesByType("navigation")[0]?.type !== "back_forward") return;
  for (const form of document.forms) {
    hold(form, false);
    if (form.matches(".filter")) form.reset();
  }
});

// A browser gives no field the focus by autofocus if the address has a fragment, as that of a form for
// an action has, and takes the focus away when it scrolls there. Then what is typed would be taken for
// keys.
const focusForm = () => {
  if (document.activeElement === document.body) document.querySelector("main [autofocus]")?.focus();
};
focusForm();
addEventListener("load", focusForm);

// A choice applies at once if a pointer, a screen reader or Enter in the open list made it. By the
// keyboard each arrow in the closed list is a choice, so it applies with Enter, or when the field is
// left. The focus comes back. Empty fields are left out of the address.
const focused = "sendcode.focus";
const back = window.sessionStorage?.getItem(focused);
if (back) document.querySelector(back)?.focus();
window.sessionStorage?.removeItem(focused);
let last = {}; // the newest event of a key or a pointer
for (const type of ["keydown", "pointerdown", "mousedown"]) document.addEventListener(type, (event) => { last = event; }, true);
const isChoice = (field) => field.matches("form.filter > select, form.filter > label > select");
const movesChoice = ({ type, key }) => type === "keydown" && !["Tab", "Enter", "Shift", "Control", "Alt", "Meta"].includes(key);
const isOpen = (choice) => CSS.supports("selector(:open)") && choice.matches(":open"); // Firefox closes it after the event

// again returns a selector of the field, or of the form's link or summary, on the next page.
function again(element) {
  if (element?.name) return `main form [name="${element.name}"]`;
  return element?.matches("form.filter :is(a, summary)") ? `form.filter ${element.localName}` : "";
}

for (const form of document.querySelectorAll("form.filter")) {
  let changed = false;
  const apply = (next, left) => {
    changed = false;
    window.sessionStorage?.setItem(focused, again(next) || again(left));
    form.requestSubmit();
  };
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !changed || !isChoice(event.target)) return;
    event.preventDefault();
    apply(event.target);
  });
  form.addEventListener("change", ({ target }) => {
    if (!isChoice(target)) return;
    changed = true;
    if (last.target !== target || !movesChoice(last) || isOpen(target)) apply(target);
  });
  // Chromium shows no keys to the page while the list is open, and then makes a click of the choice.
  form.addEventListener("click", ({ target, detail }) => {
    if (changed && detail === 0 && isChoice(target)) apply(target);
  });
  form.addEventListener("focusout", ({ target, relatedTarget }) => {
    if (!changed || !isChoice(target) || document.activeElement === target) return; // then the window lost the focus
    if (last.key === "Tab") apply(relatedTarget, target);
    else if (!(relatedTarget ?? last.target).closest?.("a, button")) apply(relatedTarget); // Safari gives links no focus
  });
  form.addEventListener("reset", () => { changed = false; });
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
  });
}

// The frames of mails are open where they fit beside their texts.
if (matchMedia("(min-width: 48rem)").matches) {
  for (const frame of document.querySelectorAll("details.frame")) frame.open = true;
}

// A button that copies a text. If the clipboard may not be written, it selects the text instead.
function offerCopies(part) {
  for (const button of part.querySelectorAll("button[data-copy]")) {
    const name = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(text.dataset.whole ?? text.innerText.trim());
        button.textContent = button.dataset.copied;
        setTimeout(() => { button.textContent = name; }, 2000);
      } catch {
        getSelection().selectAllChildren(text);
      }
    });
  }
}

offerCopies(document);

// The list fetches its own address every 5 s. The answer is 304 while neither the rows nor their
// states have changed. A tab that is not visible fetches nothing. While a text is being selected,
// nothing changes.
const every = 5000;
const live = document.querySelector("#live");
let tag = live?.dataset.tag;
let lost = false;

async function refresh() {
  if (document.hidden || !getSelection().isCollapsed) return;
  const begun = now();
  const answer = await fetch(live.dataset.again, { headers: { "If-None-Match": tag } });
  if (answer.redirected && new URL(answer.url).pathname.endsWith("/login")) { // the session has ended
    const login = Object.assign(document.createElement("a"), { href: answer.url, textContent: live.dataset.login });
    live.replaceChildren(live.dataset.out, " ", login);
    return false;
  }
  if (!answer.ok && answer.status !== 304) throw new Error(answer.status);
  const page = answer.status === 304 ? null : new DOMParser().parseFromString(await answer.text(), "text/html");
  if (page && !(page.getElementById("live") && page.getElementById("list"))) throw new Error("another one answered");
  if (lost) live.textContent = "";
  lost = false;
  if (page === null) return;
  startAt(begun, page);
  take(page);
  tick();
}

// Nothing moves under the person's hand. While a pointer or the focus is in the list, while a
// finger may soon be, and while the list is scrolled, only states change in place. New rows, and a
// verdict that would move the list, wait behind a button.
function take(page, all) {
  const list = document.getElementById("list"), fresh = page.getElementById("list");
  const rows = [...list.querySelectorAll("tr[id]")];
  const held = !all && rows.length > 0 && (list.matches(":hover") || list.contains(document.activeElement) ||
      matchMedia("(pointer: coarse)").matches || list.getBoundingClientRect().top < 0);
  const place = list.getBoundingClientRect().top;
  let waits = 0;
  for (const id of ["verdict", "person"]) {
    const before = document.getElementById(id), after = page.getElementById(id)?.cloneNode(true);
    if (!before || !after) continue;
    exchange(before, after);
    if (!(held || !all && before.matches(":hover")) || list.getBoundingClientRect().top === place) continue;
    exchange(after, before);
    waits = -1;
  }
  if (held) {
    const known = new Map(rows.map((row) => [row.id, row]));
    const news = [...fresh.querySelectorAll("tr[id]")];
    const first = news.findIndex(({ id }) => known.has(id));
    for (const row of news) update(known.get(row.id), row);
    const count = first < 0 ? news.length : first;
    if (count > 0 || rows.some(({ id }) => !page.getElementById(id))) waits = count || -1;
  } else {
    exchange(list, fresh.cloneNode(true));
  }
  if (waits === 0) tag = page.querySelector("#live").dataset.tag;
  offer(waits, page);
}

function update(row, fresh) {
  if (!row) return;
  row.querySelector("a").title = fresh.querySelector("a").title;
  const cells = [...fresh.cloneNode(true).cells];
  [...row.cells].forEach((cell, n) => { if (n > 0) cell.replaceWith(cells[n]); }); // the first cell has the link, which may have the focus
}

// offer shows how many new rows wait. Below 0, it shows that something else waits.
function offer(waits, page) {
  const text = waits > 0 ? live.dataset.new.replace("{n}", waits) : waits < 0 ? live.dataset.changed : "";
  const button = live.querySelector("button") ?? Object.assign(document.createElement("button"), { type: "button", className: "quiet" });
  button.onclick = () => {
    take(page, true);
    document.querySelector("a[data-row]")?.focus({ preventScroll: true });
  };
  if (live.textContent === text) return;
  button.textContent = text;
  live.replaceChildren(...(text ? [button] : []));
}

function exchange(before, after) {
  const active = before.contains(document.activeElement) && document.activeElement;
  before.replaceWith(after);
  shortenIn(after);
  offerCopies(after);
  if (!active) return;
  const row = document.getElementById(active.closest("tr")?.id), kept = row ? row.querySelector("a") : document.getElementById(active.id);
  kept?.focus({ preventScroll: true });
}

async function follow() {
  try {
    if (await refresh() === false) return;
  } catch {
    live.textContent = live.dataset.lost;
    lost = true;
  }
  setTimeout(follow, every);
}

if (live !== null) setTimeout(follow, every);

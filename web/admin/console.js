// The console's keys and times. Every page works without it: times are then in UTC, and Tab and Enter do the rest.

const two = (n) => String(n).padStart(2, "0");
const day = (d) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;

// Times in the reader's zone, UTC on hover. The day is left out where it is today's, and in a story (data-days) where it
// is that of the time before.
let told = { story: null, day: "" };

function localise(element, today) {
  const d = new Date(element.dateTime);
  if (Number.isNaN(d.getTime())) return;
  const fraction = "exact" in element.dataset ? "." + String(d.getMilliseconds()).padStart(3, "0") : "";
  const hour = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}${fraction}`;
  const story = element.closest("[data-days]");
  const known = story !== null && story === told.story ? told.day : today;
  const date = document.createElement("span");
  date.className = "date";
  date.textContent = day(d) === known ? "" : day(d) + " ";
  element.replaceChildren(date, hour);
  told = { story, day: day(d) };
}

function zoneName(now) {
  const east = -now.getTimezoneOffset();
  const minutes = Math.abs(east) % 60;
  const hours = Math.floor(Math.abs(east) / 60);
  if (east === 0) return "UTC";
  return `UTC${east < 0 ? "−" : "+"}${hours}${minutes ? ":" + two(minutes) : ""}`;
}

const now = new Date();
for (const element of document.querySelectorAll("time")) localise(element, day(now));
document.addEventListener("sendcode:drawn", (event) => { // a row that came later
  for (const element of event.target.querySelectorAll("time")) localise(element, day(new Date()));
});
for (const element of document.querySelectorAll("[data-zone]")) element.textContent = zoneName(now);

// j and k move through the rows' links, which Enter then opens by itself; / goes to the search.
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

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea, [contenteditable]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  switch (event.key) {
    case "j": move(1); break;
    case "k": move(-1); break;
    case "/": if (!search()) return; break;
    default: return;
  }
  event.preventDefault();
});

// A click anywhere in a row opens it, unless text was being selected.
document.querySelector("table.sends")?.addEventListener("click", (event) => {
  if (event.target.closest("a") || !getSelection().isCollapsed) return;
  event.target.closest("tr")?.querySelector("a[data-row]")?.click();
});

// Empty fields stay out of the address.
for (const form of document.querySelectorAll("form.filter")) {
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
  });
}

// A text to copy. Where the clipboard may not be written, it is selected instead.
for (const button of document.querySelectorAll("button[data-copy]")) {
  const text = document.getElementById(button.dataset.copy);
  const name = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.innerText.trim());
      button.textContent = button.dataset.copied;
      setTimeout(() => { button.textContent = name; }, 2000);
    } catch {
      getSelection().selectAllChildren(text);
    }
  });
}

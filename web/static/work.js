import { attempt, patience } from './browser.js';

// A proof of work by ALTCHA's protocol, version 1. Its solution is the number whose digits after
// the salt have the wanted SHA-256 hash. The hash is implemented here (FIPS 180-4): browsers offer
// it only on https, and asynchronously. A worker solves the challenge. If a site's policy or the
// browser allows no worker, the page itself solves it in short steps.

const primes = [];
for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
const fraction = (root) => (root * 2 ** 32) | 0;
const rounds = primes.map((p) => fraction(Math.cbrt(p))), initial = primes.slice(0, 8).map((p) => fraction(Math.sqrt(p)));

const words = new Int32Array(64);
const turn = (x, n) => (x >>> n) | (x << (32 - n));

// mix returns the state of the hash after the block at the place at of the view.
function mix(state, view, at) {
  for (let i = 0; i < 16; i++) words[i] = view.getInt32(at + 4 * i);
  for (let i = 16; i < 64; i++) {
    const x = words[i - 15], y = words[i - 2];
    words[i] = words[i - 16] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + words[i - 7] + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i++) {
    const t = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + rounds[i] + words[i]) | 0;
    const u = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g; g = f; f = e; e = (d + t) | 0; d = c; c = b; b = a; a = (t + u) | 0;
  }
  return [a + state[0], b + state[1], c + state[2], d + state[3], e + state[4], f + state[5], g + state[6], h + state[7]].map((x) => x | 0);
}

const hex = (state) => state.map((x) => (x >>> 0).toString(16).padStart(8, '0')).join('');

const step = 2000; // numbers between two pauses: some milliseconds

// search tries the numbers. After each step it yields the share of numbers tried so far. It returns
// the solution; undefined: there is none.
export function* search({ salt, challenge, maxNumber }) {
  const text = new TextEncoder().encode(salt), whole = text.length - text.length % 64, tail = text.length - whole,
      wanted = parseInt(challenge.slice(0, 8), 16) | 0;
  const start = new DataView(text.buffer), bytes = new Uint8Array(128), view = new DataView(bytes.buffer);
  let before = initial;
  for (let at = 0; at < whole; at += 64) before = mix(before, start, at);
  bytes.set(text.subarray(whole));
  for (let number = 0; number <= maxNumber; number++) {
    if (number % step === 0) yield number / maxNumber;
    const digits = String(number), end = tail + digits.length;
    for (let i = 0; i < digits.length; i++) bytes[tail + i] = digits.charCodeAt(i);
    bytes[end] = 0x80;
    if (end === 56) view.setUint32(60, 0); // the length of shorter texts was there before
    view.setUint32(end < 56 ? 60 : 124, 8 * (whole + end));
    let state = mix(before, view, 0);
    if (end >= 56) state = mix(state, view, 64);
    if (state[0] === wanted && hex(state) === challenge) return number;
  }
  return undefined;
}

// addressOfWorker is the address of a worker's script: this file. A worker needs a script of the
// page's own origin; if this file has another origin, that script imports it.
const address = import.meta.url;
const addressOfWorker = () => new URL(address).origin === location.origin ? address
  : URL.createObjectURL(new Blob([`import ${JSON.stringify(address)};`], { type: 'text/javascript' }));

// own allows only this script as a worker, if the page's policy enforces Trusted Types.
const own = attempt(() => trustedTypes.createPolicy('sendcode-worker', { createScriptURL: addressOfWorker }));

const begin = () => new Worker(own?.createScriptURL('') ?? addressOfWorker(), { type: 'module' });

if (typeof document === 'undefined') {
  onmessage = ({ data }) => {
    const tries = search(data);
    let now = tries.next();
    for (; !now.done; now = tries.next()) postMessage({ share: now.value });
    postMessage({ number: now.value });
  };
}

// apart resolves to the result of a worker. It is rejected if there can be no worker, or if its
// script does not begin: another program may have answered with a script of its own.
const apart = (work, progress) => new Promise((go, no) => {
  const worker = begin(), end = (then, value) => { worker.terminate(); clearTimeout(late); then(value); };
  const late = setTimeout(end, patience, no);
  worker.onerror = (event) => end(no, event);
  worker.onmessage = ({ data }) => {
    clearTimeout(late);
    if (data?.share >= 0) progress(data.share);
    else end(data?.number >= 0 ? go : no, data?.number);
  };
  worker.postMessage(work);
});

async function here(work, progress) {
  const tries = search(work);
  let now = tries.next();
  for (; !now.done; now = tries.next()) {
    progress(now.value);
    await new Promise((go) => setTimeout(go));
  }
  return now.value;
}

// prove resolves to the token of a solved challenge. Below the waiting form it says why the person
// waits, and shows the progress.
export async function prove(cards, form, work, why, label) {
  const box = document.createElement('div'), text = document.createElement('p'), bar = document.createElement('progress');
  Object.assign(box, { className: 'box note', part: 'note' });
  text.textContent = why;
  bar.setAttribute('aria-label', label);
  box.append(text, bar);
  form.after(box);
  cards.say(why, true);
  const { algorithm, challenge, salt, signature } = work, progress = (share) => { bar.value = share; };
  const number = await apart(work, progress).catch(() => here(work, progress));
  box.remove();
  return `work:${btoa(JSON.stringify({ algorithm, challenge, number, salt, signature }))}`;
}

import { attempt, within } from '../static/browser.js';
import { minute, Moment, second } from '../static/time.js';
import { isCheck, isOffer, isProblem, isVerification } from './answers.js';

// The requests of a browser to the API (docs/openapi.yaml), without cards: /client.js. <send-code>
// uses it, too.

export { Moment };

const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');

// How often, and after which pause, a request is repeated while the service works on the same
// request (409).
const twins = 20, twinWait = second / 2;

const repeats = 2; // repetitions of a check that got no answer
const longest = 5; // seconds before a repetition: a service that wants a longer pause counts as away

const random = () => attempt(() => hex(crypto.getRandomValues(new Uint8Array(16))));

// json returns a body as JSON, also where a library of the page has given arrays or objects a toJSON.
const json = (what) => {
  const own = (value) => Object.assign(value, { toJSON: undefined });
  return JSON.stringify(own(Object.fromEntries(Object.entries(what).map(([name, value]) => [name, Array.isArray(value) ? own([...value]) : value]))));
};

const rest = (ms) => new Promise((go) => setTimeout(go, ms));

// mistaken returns why a page cannot use a key; undefined: it can.
export const mistaken = (key) => !key ? 'it has no public key: pk_…'
  : key.startsWith('sk_') ? "a secret key (sk_…) is no secret in a page: use the app's public key (pk_…), and replace this one" : undefined;

// waiting returns the milliseconds until the next code may be requested, according to an answer.
export const waiting = ({ body, moment }) => {
  const { quota } = body, ms = body.retry_after_ms ?? quota?.retry_after_ms ?? (quota?.retry_after ?? 0) * second;
  return Math.max(0, ms - moment.elapsed());
};

// Client makes requests with a public key to the service at api; by default, that is where this
// script came from. Answers are {ok, status, body, moment, retry}. moment is when the answer
// arrived, retry the seconds of Retry-After, 0 without that header. If ok is false, the body is a
// problem. The form of a body decides (answers.js), not its status. Status 0 means that no answer of
// the service arrived: `error` says why. For example, a service worker, a firewall or a proxy
// answered in its place, or from its memory. `barred` means that the service is there, but does not
// let this page read its answers.
//
// kept stores the key of a send from before its request until its answer, as {get, set, forget}. If
// it keeps the key across a reload, a repeated send to the recipient finds the code even if the
// first answer was lost.
export class Client {
  #heard = false; // an answer of the service could be read
  #told = false; // the console has been told that another program answered
  #seen = {}; // by ID of a verification: {status, number, time, steady} of its last answer
  #open = {}; // by path: a request whose answer has not arrived, and its key, which a repetition has, too

  constructor({ key, api = new URL('./', import.meta.url), ask = asked, kept }) {
    const why = mistaken(key);
    if (why) {
      console.error(`sendcode: ${why}`);
      throw new TypeError(why);
    }
    Object.assign(this, { key, api: new URL(String(api).replace(/\/?$/, '/'), document.baseURI), ask, kept });
  }

  // send requests a code: {channel, to, purpose, locale, reference, country, known}, or
  // {verification_id} for a further one. After a 428, call it again with human_check, the token.
  send(what) {
    return this.#once('v1/verifications', what, (body) => isVerification(body) && this.#saw(body), repeats, this.kept);
  }

  // check compares a code. If no answer arrives, it repeats the request, and the caller may call it
  // again. A repetition counts nothing, and still gets the answer about a right code.
  check(id, code) {
    const is = (body) => isCheck(body) && body.id === id && this.#saw(body);
    return this.#once(`v1/verifications/${encodeURIComponent(id)}/check`, { code }, is, repeats);
  }

  // #once posts a request that must count once. A browser that cannot make random numbers sends no
  // key and repeats nothing. is returns whether a body is the answer.
  async #once(path, what, is, left = 0, kept) {
    const body = json(what), headers = { 'Content-Type': 'application/json' }, same = json({ ...what, human_check: undefined });
    if (this.#open[path]?.same !== same) this.#open[path] = { same, key: /^[\da-f]{32}$/.exec(kept?.get())?.[0] ?? random() };
    const mine = this.#open[path];
    for (let n = 0; ; n++) {
      if (mine.key) {
        kept?.set(mine.key);
        headers['Idempotency-Key'] = mine.key;
      }
      const answer = await this.#ask(path, { method: 'POST', body, headers }, is), { status, error, barred, retry } = answer;
      const problem = (kind) => String(answer.body?.type).endsWith(`/${kind}`), twin = status === 409 && problem('conflict'),
          lost = status === 0 || status >= 500;
      if (twin && n < twins) await rest(twinWait);
      else if (problem('idempotency-key-reused') && n < twins) mine.key = random(); // it was kept for another recipient
      else if (mine.key && (kept ? status === 0 : lost) && left > 0 && !(status && retry > longest) && !barred &&
          error?.name !== 'AbortError') {
        left -= error?.name === 'TimeoutError' ? repeats : 1;
        await rest((status && retry || 1) * second);
      } else {
        const asks = !answer.ok && answer.body?.human_check; // the answer to a human check belongs to the same send
        if (!twin && !lost && !asks && (status !== 429 || answer.body.quota) && this.#open[path] === mine) { // the service has decided about the request
          delete this.#open[path];
          kept?.forget();
        }
        return answer;
      }
    }
  }

  get(id) {
    const is = (body) => isVerification(body) && body.id === id && !this.#old(body) && this.#saw(body);
    return this.#ask(`v1/verifications/${encodeURIComponent(id)}`, { cache: 'no-store' }, is);
  }

  // #saw keeps what a later look at the same verification must not fall behind.
  #saw({ id, status, send, expires_at: ends, expires_in: life }) {
    const { number = 0, time } = this.#seen[id] ?? {}, now = life > 0 ? Date.parse(ends) - life * second : time;
    return this.#seen[id] = { status, number: send?.number ?? number, time: now, steady: performance.now() };
  }

  // #old returns whether an answer is from before the last one: a service worker, or another cache of
  // GETs, has kept it.
  #old({ id, status, send, expires_at: ends, expires_in: life }) {
    const seen = this.#seen[id], gone = seen && performance.now() - seen.steady;
    return seen && (send.number < seen.number || send.number === seen.number && status === 'pending' && seen.status !== status ||
        life > 0 && Date.parse(ends) - life * second < seen.time + gone - minute);
  }

  // channels returns the channels that can send codes now; undefined: unknown.
  async channels(purpose) {
    const { status, body } = await this.offer(purpose);
    return status === 200 ? body.channels : undefined;
  }

  // offer returns the answer that channels reads. It aborts no other request.
  offer(purpose = '', locale = '') {
    return this.#ask(`v1/channels?purpose=${encodeURIComponent(purpose)}&locale=${encodeURIComponent(locale)}`, { cache: 'no-store' },
        isOffer, asked);
  }

  // reachable returns whether the service answers. For a service that is away, and for a page that
  // may not read its answers, browsers report the same error. But every page may read widget.js. Its
  // address is a new one, since a service worker may have kept it.
  reachable() {
    return within(async (signal) => (
        await fetch(new URL(`widget.js?${random() ?? Date.now()}`, this.api), { method: 'HEAD', cache: 'no-store', credentials: 'omit', signal })).ok)
      .catch(() => false);
  }

  // #barred tries once more, because a connection that was lost for a moment is back by then.
  async #barred({ Authorization }) {
    const ask = (signal) => fetch(new URL('v1/channels', this.api), { method: 'HEAD', headers: { Authorization }, signal });
    return await this.reachable() && !await within(ask).catch(() => {});
  }

  // #ask makes a request. If the response is neither the expected answer nor a problem of the
  // service, it comes from another program, and counts as no answer, whatever its status says.
  async #ask(path, options, is, ask = this.ask) {
    const headers = { ...options.headers, Authorization: `Bearer ${this.key}` };
    let got;
    try {
      got = await ask(new URL(path, this.api), { ...options, headers, credentials: 'omit', referrerPolicy: 'no-referrer' });
    } catch (error) {
      const barred = error instanceof TypeError && !this.#heard && await this.#barred(headers);
      return { ok: false, status: 0, error, barred, retry: 0 };
    }
    const { answer, moment, text } = got, { headers: said, status } = answer, body = read(text), retry = Number(said.get('Retry-After')) || 0;
    const ok = answer.ok && Boolean(attempt(() => is(body)));
    if (ok || attempt(() => isProblem(body))) {
      this.#heard = true;
      moment.service = Date.parse(said.get('Date'));
      return { ok, status: ok ? status : body.status, body, moment, retry };
    }
    const error = new TypeError(`no answer of the service: ${status}, ${said.get('Content-Type')}, at ${answer.url}`);
    if (!this.#told) console.warn(`sendcode: ${error.message}`);
    this.#told = true;
    return { ok: false, status: 0, error, barred: false, retry };
  }
}

async function asked(url, options) {
  return within(async (signal) => {
    const answer = await fetch(url, { ...options, signal }), moment = new Moment();
    return { answer, moment, text: await answer.text() };
  });
}

// read returns the value in a text; undefined: the text is no JSON.
const read = (text) => attempt(() => JSON.parse(text));

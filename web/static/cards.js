import { offline } from './browser.js';
import { second } from './time.js';

// Cards shows one card, #card, in a widget's shadow tree. Swap (swap.js) puts the next one in its
// place. The root also has a status line, #say, and a box for notices, #offline, which is in the
// card below the form that failed. It shows the notice of the connection, until that is back, or
// else the notice of the last act, until the next act.
export class Cards {
  #said = '';
  unsent; // the form that was submitted without a connection, until something is typed
  #back; // the connection came back, and no request has failed since
  #line = ''; // the notice of the connection
  failed = ''; // the notice of an act without an answer, until something is typed or submitted, or a card says more

  code; // the CodeField (code.js), once it is loaded
  countdown; // the Countdown (countdown.js), once it is loaded
  swap; // the Swap, once it is loaded
  broken = false; // they did not come, twice

  // act sends the request of a form. It resolves to a function that shows the answer, to undefined
  // if none came, and to false if none is awaited any more. inquiry (inquiry.js) makes the
  // automatic requests.
  constructor(root, inquiry, act) {
    Object.assign(this, { root, inquiry, act });
    root.addEventListener('submit', (event) => {
      const button = event.submitter ?? event.target.querySelector('button');
      event.preventDefault();
      if (!inquiry.posting && button.ariaDisabled !== 'true' && !button.matches(':disabled') &&
          !this.code?.done(event.target)) this.#submit(event.target, button);
    });
    root.addEventListener('input', ({ target }) => {
      this.unsent = null;
      this.fail();
      this.swap?.mend(target);
    });
  }

  // #submit calls act for a form, and lets no other post begin meanwhile. If no answer comes,
  // everything stays, so the next try is the same request.
  async #submit(form, button) {
    const { inquiry, words, code } = this;
    inquiry.posting = true;
    working(button, true);
    this.fail();
    code?.submitted(form);
    const slow = setTimeout(() => this.say(this.words?.OneMoment, true), second);
    const show = await this.act(form);
    clearTimeout(slow);
    if (show === false) return;
    inquiry.posting = false;
    this.warn();
    show?.();
    const lost = offline(), again = lost || this.#back;
    this.unsent = !show && again && form;
    code?.answered(show, again);
    if (show) return;
    working(button, false);
    if (lost || !again) {
      const text = lost ? words?.Offline : this.broken ? words?.NotLoaded : words?.Trouble;
      if (lost) this.warn(text, form);
      else this.fail(text, form);
      this.say(text, form);
      inquiry.follow(true); // until the service answers again
    } else setTimeout(() => this.#resend(), second); // it was sent before the connection came back, or a moment too early
    this.#back = false;
  }

  // connected is told whether there is a connection.
  connected(yes) {
    const text = yes ? this.words?.Online : this.words?.Offline;
    this.warn(yes ? '' : text);
    this.say(text);
    this.#back = yes;
    if (yes) this.#resend();
  }

  #resend() {
    if (this.unsent?.isConnected) this.unsent.requestSubmit();
    else this.code?.check();
  }

  // speak sets the words for durations and for a request, and the language for times of the day.
  speak(words, lang) {
    Object.assign(this, { words, lang });
  }

  get card() { return this.find('#card'); }

  // typed are the fields that a person has changed.
  get typed() { return [...this.card.querySelectorAll('input, select')].filter(touched); }

  find(selector) { return this.root.querySelector(selector); }

  tick() { this.countdown?.tick(); }

  stop() {
    this.countdown?.stop();
    this.swap?.stop();
    this.code?.stop();
  }

  // begin starts with the card that the root has already.
  begin(moment) {
    this.moment = moment;
    this.prepare();
    // Screen readers announce only changes of a live region, so it must have been there before.
    setTimeout(() => { if (!this.#said) this.say(this.card?.dataset.say); }, 100);
  }

  prepare() {
    this.countdown?.write();
    this.tick();
    this.code?.drawn();
  }

  // say has a screen reader say a text. It says the same text again only with anew: a no-break
  // space at its end makes it a change.
  say(text, anew) {
    const line = this.find('#say');
    if (!text || text === this.#said && !anew) return;
    this.#said = text;
    line.textContent = line.textContent === text ? `${text}\u00a0` : text;
  }

  // warn sets the notice of the connection. Without a text it ends, but not while there is no
  // connection: an answer may arrive after the connection was lost.
  warn(text = '', form) {
    if (!text && offline()) return;
    this.#line = text;
    this.#notify(form);
  }

  fail(text = '', form) {
    this.failed = text;
    this.#notify(form);
  }

  // #notify shows the notice below the form that failed, or the card's first.
  #notify(form) {
    const box = this.find('#offline'), text = this.#line || this.failed;
    box.hidden = !text;
    box.textContent = text;
    if (text) (this.card.contains(form) ? form : this.find('#card form'))?.after(box);
  }

  // replace puts the next card in place of this one, with the box about the connection.
  replace(next) {
    const box = this.find('#offline');
    this.card.after(box);
    this.card.replaceWith(next);
    if (!box.hidden) this.find('#card form')?.after(box);
  }
}

// touched says whether a field was changed.
function touched(field) {
  if (field.type === 'radio') return field.checked !== field.defaultChecked;
  if (field.options) return !field.selectedOptions[0]?.defaultSelected;
  return field.type !== 'hidden' && field.value !== field.defaultValue;
}

// working shows on a button that an answer is being waited for, or that it did not come.
export function working(button, on) {
  button.ariaDisabled = on || null;
  button.classList.toggle('busy', on);
}

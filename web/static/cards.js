import { offline } from './browser.js';
import { second } from './time.js';

// Cards shows one card, #card, in a widget's shadow tree. Swap (swap.js) replaces the card by the
// next one. The root also has a status line, #say, and a box for notices, #offline, in the card
// below the form that failed. The box shows that there is no connection, until the connection is
// back; otherwise it shows the notice of the last act, until the next act.
export class Cards {
  #said = '';
  unsent; // the form that was submitted without a connection, until a field is changed
  #resent; // whether the form is being submitted again by this script, not by the person
  #back; // the connection is back, and no request has failed since then
  #line = ''; // the notice of the connection
  #lost = 0; // when the browser last said that there is none
  failed = ''; // the notice of an act without an answer, until a field is changed, a form is submitted or a card says more

  composing = false; // an input method has not finished a text

  code; // the CodeField (code.js), when it is loaded
  countdown; // the Countdown (countdown.js), when it is loaded
  swap; // the Swap, once it is loaded
  broken = false; // their modules failed to load twice

  // act sends the request of a form. It resolves to a function that shows the answer, to undefined
  // if no answer came, and to false if the answer is no longer awaited. inquiry (inquiry.js) makes
  // the automatic requests.
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

  // #submit calls act for a form. Meanwhile no other form can be submitted. If no answer comes, the
  // card stays unchanged, so the next try sends the same request.
  async #submit(form, button) {
    const { inquiry, words, code } = this, began = performance.now();
    const resent = this.#resent;
    inquiry.posting = true;
    this.unsent = null;
    this.#resent = false;
    working(button, true);
    this.fail();
    code?.submitted(form);
    const said = this.#said; // a human check, which waits for the person, says more
    const slow = setTimeout(() => said === this.#said && this.say(this.words?.OneMoment, true), second);
    const show = await this.act(form).catch(console.error);
    clearTimeout(slow);
    if (show === false) return;
    inquiry.posting = false;
    this.reached(show ? began : -1);
    show?.();
    const lost = offline() && !resent, again = lost || this.#back;
    this.unsent = !show && again && form;
    code?.answered(show, again);
    if (show) return;
    working(button, false);
    if (lost || !again) {
      const text = lost ? words?.Offline : this.broken ? words?.NotLoaded : words?.Trouble;
      if (lost) this.warn(text, form);
      else this.fail(text, form);
      this.say(text, form);
      inquiry.follow(true); // until the service answers again, which ends the notice
    } else setTimeout(() => this.#resend(), second); // the request was sent before the connection came back, or a moment too early
    this.#back = false;
  }

  // connected must be called when the connection is lost or comes back.
  connected(yes) {
    const text = yes ? this.words?.Online : this.words?.Offline;
    if (!yes) this.#lost = performance.now();
    this.warn(yes ? '' : text);
    this.say(text);
    this.#back = yes;
    if (yes) this.#resend();
  }

  #resend() {
    this.#resent = this.unsent?.isConnected;
    if (this.#resent) this.unsent.requestSubmit();
    else this.code?.check();
  }

  // speak sets the words for durations, for times of the day and for a request in progress.
  speak(words) { this.words = words; }

  get card() { return this.find('#card'); }

  // typed returns the fields that a person has changed.
  get typed() { return [...this.card.querySelectorAll('input, select')].filter(touched); }

  find(selector) { return this.root.querySelector(selector); }

  tick() { this.countdown?.tick(); }

  stop() {
    this.countdown?.stop();
    this.swap?.stop();
    this.code?.stop();
  }

  // begin starts with the card that is already in the root.
  begin(moment) {
    this.moment = moment;
    this.prepare();
    // Screen readers announce only a change of a live region, so the region must exist before the
    // change.
    setTimeout(() => { if (!this.#said) this.say(this.card?.dataset.say); }, 100);
  }

  prepare() {
    this.countdown?.write();
    this.tick();
    this.code?.drawn();
  }

  // say lets a screen reader say a text. To say the same text again, set anew: a no-break space at
  // the end makes the text differ.
  say(text, anew) {
    const line = this.find('#say');
    if (!text || text === this.#said && !anew) return;
    this.#said = text;
    line.textContent = line.textContent === text ? `${text}\u00a0` : text;
  }

  // reached ends the notice of the connection after the answer to a request of then, and sends what
  // was not sent: whatever the browser says, there is a connection. An earlier request may be
  // answered after it was lost.
  reached(then) {
    if (offline() && then < this.#lost) return;
    this.warn();
    if (this.unsent && then >= 0) this.#resend();
  }

  // warn sets the notice of the connection. Without a text the notice ends.
  warn(text = '', form) {
    this.#line = text;
    this.#notify(form);
  }

  fail(text = '', form) {
    this.failed = text;
    this.#notify(form);
  }

  // #notify shows the notice below the form that failed; without such a form, below the card's
  // first form.
  #notify(form) {
    const box = this.find('#offline'), text = this.#line || this.failed;
    box.hidden = !text;
    box.textContent = text;
    if (text) (this.card.contains(form) ? form : this.find('#card form'))?.after(box);
  }

  // replace replaces the card by the next one, and moves the box for notices into it. It returns
  // which element of the card had the focus: its ID and its selection.
  replace(next) {
    const box = this.find('#offline'), { activeElement: at } = this.root;
    const held = this.card.contains(at) && { id: at.id, range: [at.selectionStart, at.selectionEnd] };
    this.card.after(box);
    this.card.replaceWith(next);
    if (!box.hidden) this.find('#card form')?.after(box);
    return held;
  }
}

// touched returns whether a person has changed the field.
function touched(field) {
  if (field.type === 'radio') return field.checked !== field.defaultChecked;
  if (field.options) return !field.selectedOptions[0]?.defaultSelected;
  return field.type !== 'hidden' && field.value !== field.defaultValue;
}

// working shows on a button that an answer is awaited, or that no answer came.
export function working(button, on) {
  button.ariaDisabled = on || null;
  button.classList.toggle('busy', on);
}

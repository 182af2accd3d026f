import { attempt, offline } from './browser.js';
import { second } from './time.js';

// bare is a text as codes are compared: without spaces, dashes and what is not seen.
export const bare = (text) => text.normalize('NFKC').replace(/[\s\p{Pd}\p{Cf}]/gu, '').toUpperCase();

// consists says that a text has nothing but what codes consist of.
const consists = (text, letters) => (letters ? /^[BCDFGHJ-NP-TV-XZ]+$/ : /^\p{Nd}+$/u).test(bare(text));

// codeIn is the one code of a length in a text that holds other things too, as internal/code has it: of the runs of digits, or of
// the letters of codes, the one that is as long; or of those runs that a space or a dash parts. The same one again, as in the last line of
// a text message, does not count. Empty: there is none, or several, or the text is nothing but a code.
export function codeIn(text, length, letters) {
  if (!length || consists(text, letters)) return '';
  const plain = text.normalize('NFKC').replace(/\p{Cf}/gu, '');
  const words = [...plain.matchAll(letters ? /[a-z0-9]+/gi : /\p{Nd}+/gu)].filter(([run]) => consists(run, letters));
  const joined = [];
  for (const [i, word] of words.entries()) {
    const before = words[i - 1], between = before && plain.slice(before.index + before[0].length, word.index);
    if (before && /^[\s\p{Pd}]$/u.test(between)) joined.push(joined.pop() + word[0]);
    else joined.push(word[0]);
  }
  const fit = (runs) => runs.filter((run) => [...run].length === length);
  const whole = fit(words.map(([run]) => run)), found = new Set((whole.length ? whole : fit(joined)).map(bare));
  return found.size === 1 ? [...found][0] : '';
}

// CodeField looks after the field #code of cards (cards.js). A whole code is checked by itself: typed, pasted, from a text message, or
// when the connection is back. What is too long is not, nor what is known to be wrong, of which that is said again: a key too many
// must not cost another try.
export class CodeField {
  #sent; // what was submitted last, unless its answer came
  #wrong = new Set(); // codes that the service called wrong
  #pause; // after something was deleted: more may be
  #message; // ends the wait for a text message
  error; // the card's element that says so, after #mend

  constructor(cards) {
    this.cards = cards;
    cards.root.addEventListener('input', ({ target, isComposing, inputType }) => { if (!isComposing) this.#entered(target, inputType); });
    cards.root.addEventListener('compositionend', ({ target }) => this.#entered(target)); // no input event comes after it
  }

  get #field() { return this.cards.find('#code'); }

  get #data() { return this.#field?.dataset ?? {}; }

  get #typed() { return bare(this.#field?.value ?? ''); }

  // ready says that there is a whole code, which was not sent yet.
  get ready() {
    const { length, letters } = this.#data, typed = this.#typed;
    return [...typed].length === +length && consists(typed, letters !== undefined) && typed !== this.#sent && !this.#wrong.has(typed);
  }

  #entered(field, how) {
    if (field.id !== 'code') return;
    const { length, letters } = field.dataset, found = codeIn(field.value, +length, letters !== undefined);
    if (found) field.value = found;
    clearTimeout(this.#pause);
    if (how?.startsWith('delete')) this.#pause = setTimeout(() => this.check(), second);
    else if (this.#wrong.has(this.#typed)) this.#repeat(field);
    else this.check();
  }

  // #repeat says again that a code is wrong.
  #repeat(field) {
    field.value = '';
    field.ariaInvalid = true;
    field.setAttribute('aria-describedby', `code-error ${field.getAttribute('aria-describedby')}`);
    field.parentElement.after(this.error);
    this.cards.say(this.error.textContent, true);
  }

  check() {
    if (!this.ready || this.cards.inquiry.posting) return;
    if (offline()) this.cards.say(this.cards.words.Offline);
    else this.#field.form.requestSubmit();
  }

  // done says that a form has nothing to submit, and to the person what was wrong with what the field had: Enter was pressed after
  // a code that had been checked by itself, or once more on nothing.
  done(form) {
    const field = this.#field, done = form.contains(field) && field.matches('[aria-invalid="true"]') && field.value === '';
    if (!done) return false;
    field.focus();
    this.cards.say(this.cards.find('#code-error').textContent, true);
    return true;
  }

  submitted(form) {
    this.#sent = form.contains(this.#field) ? this.#typed : undefined;
  }

  // answered: what was not compared may be sent again, and what is to be sent again.
  answered(came, again) {
    const { wrong, keep } = this.#data;
    if (came && wrong !== undefined) this.#wrong.add(this.#sent);
    if (came ? keep === undefined : again) this.#sent = undefined;
  }

  // drawn has the browser offer the code of a text message (WebOTP), as long as there is a field for it. A card that says nothing of a
  // wrong code may be about another one.
  drawn() {
    const { wrong, keep, sms } = this.#data;
    if ((wrong ?? keep) === undefined) this.#wrong.clear();
    if (sms === undefined) return this.stop();
    if (this.#message || !window.OTPCredential) return undefined;
    this.#message = new AbortController();
    const { signal } = this.#message, asked = attempt(() => navigator.credentials.get({ otp: { transport: ['sms'] }, signal }));
    return asked?.then(({ code }) => {
      this.#message = undefined;
      const field = this.#field;
      field.value = code;
      field.dispatchEvent(new InputEvent('input', { bubbles: true }));
    }).catch(() => {}); // the person, or the browser, does not want that
  }

  stop() {
    clearTimeout(this.#pause);
    this.#message?.abort();
    this.#message = undefined;
  }
}

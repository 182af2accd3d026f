import { attempt, offline } from './browser.js';
import { second } from './time.js';

// ascii is a digit of any script, or a Latin letter of any case and width, as a code has it. A script's ten digits follow each other.
const ascii = (c) => {
  if (/\p{L}/u.test(c)) return c.normalize('NFKC').toUpperCase();
  let at = c.codePointAt(), n = -1;
  for (; /\p{Nd}/u.test(String.fromCodePoint(at--)); n++);
  return n % 10;
};

// bare is a text as codes are compared: its letters and numbers.
const bare = (text) => text.replace(/[^\p{L}\p{N}]/gu, '').replace(/\p{Nd}|[a-zＡ-Ｚａ-ｚ]/gu, ascii);

// consists says that a text has nothing but what codes consist of.
const consists = (text, letters) => (letters ? /^[B-DF-HJ-NP-TV-XZ]+$/ : /^\d+$/).test(bare(text));

// codeIn is the code of a length in a text, as internal/codes/code finds it (Shape.Find), with the same table of tests. Empty: there is none, or
// several.
export function codeIn(text, length, letters) {
  if (!length) return '';
  const read = bare(text), one = read.slice(0, length), own = consists(text, letters);
  if (own && read.length >= length && read === one.repeat(read.length / length)) return one;
  if (own && !/[^\p{L}\p{N}\p{White_Space}\p{Dash}\p{Cf}]/u.test(text)) return '';
  const plain = text.replace(/\p{Cf}/gu, ''), words = [], joined = [];
  let end;
  for (const { 0: word, index } of plain.matchAll(letters ? /[\da-zＡ-Ｚａ-ｚ０-９]+/gi : /\p{Nd}+/gu)) {
    if (!consists(word, letters)) continue;
    words.push(word);
    joined.push(words[1] && /^[^\p{L}\p{N}]$/u.test(plain.slice(end, index)) ? joined.pop() + word : word);
    end = index + word.length;
  }
  for (const all of [words, joined]) {
    const fit = new Set(all.map(bare).filter((word) => word.length === length));
    if (fit.size) return fit.size === 1 ? [...fit][0] : '';
  }
  return '';
}

// slipIn says what a text without a code has instead: a slip of the finger must not cost a try.
export function slipIn(text, letters) {
  if (!bare(text)) return 'required';
  return consists(text, letters) ? 'length' : 'foreign';
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
    cards.root.addEventListener('input', ({ target, isComposing, inputType, data }) => { if (!isComposing) this.#entered(target, data, inputType); });
    cards.root.addEventListener('compositionend', ({ target, data }) => this.#entered(target, data)); // no input event comes after it
  }

  get #field() { return this.cards.find('#code'); }

  get #data() { return this.#field?.dataset ?? {}; }

  get #typed() { return this.#read(this.#field?.value ?? '') || bare(this.#field?.value ?? ''); }

  #read(text) { return codeIn(text, +this.#data.length, this.#data.letters !== undefined); }

  // ready says that there is a whole code, which was not sent yet.
  get ready() {
    const code = this.#read(this.#field?.value ?? '');
    return code && code !== this.#sent && !this.#wrong.has(code);
  }

  // #entered takes in what is in the field. A whole code that came at once replaces what was there.
  #entered(field, added, how) {
    if (field.id !== 'code') return;
    const found = this.#read(added ?? '') || this.#read(field.value);
    if (found && bare(field.value) !== found) field.value = found;
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

import { attempt, offline } from './browser.js';
import { second } from './time.js';

// ascii returns a digit of any script, or a Latin letter of any case and width, as codes have it. A
// script's ten digits have consecutive code points, so the digits before one tell its value.
const ascii = (c) => {
  if (/\p{L}/u.test(c)) return c.normalize('NFKC').toUpperCase();
  let at = c.codePointAt(), n = -1;
  for (; /\p{Nd}/u.test(String.fromCodePoint(at--)); n++);
  return n % 10;
};

// bare returns a text as codes are compared: only its letters and numbers.
const bare = (text) => text.replace(/[^\p{Alphabetic}\p{N}]/gu, '').replace(/\p{Nd}|[a-zＡ-Ｚａ-ｚ]/gu, ascii);

// consists reports whether the letters and numbers of a text are all characters of codes.
const consists = (text, letters) => (letters ? /^[B-DF-HJ-NP-TV-XZ]+$/ : /^\d+$/).test(bare(text));

// codeIn returns the code of this length in a text; '' if there is none or more than one.
// Format.Find of internal/codes/code does the same, and both are tested with its
// testdata/typed.json.
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

// slipIn returns what is wrong with a text without a code, which is then not sent: a slip of the
// finger must not cost a try.
export function slipIn(text, letters) {
  if (!bare(text)) return 'required';
  return consists(text, letters) ? 'length' : 'foreign';
}

// CodeField handles the field #code of cards (cards.js). It submits a whole code by itself: typed,
// pasted, from a text message, or when the connection is back. It does not submit a text that is
// too long, nor a code known to be wrong, for which it repeats the error: one key too many must not
// cost another try. What a filler put in was not typed: it is submitted only if it is a code of
// this form and nothing else, and not after a wrong code, since fillers fill each new field
// (docs/widget.md).
export class CodeField {
  #sent; // the text that was submitted last, while it must not be submitted again by itself
  #wrong = new Set(); // codes that the service called wrong
  #held; // the text of a filler that is not to be submitted by itself
  #pause; // timer that delays the check after a deletion, since more may follow
  #message; // ends the wait for a text message
  error; // the element that said that the code is wrong, after Swap removed it

  constructor(cards) {
    this.cards = cards;
    cards.root.addEventListener('input',
        ({ target, isComposing, inputType, data }) => { if (!isComposing) this.#entered(target, data, inputType); });
    // no input event comes after it
    cards.root.addEventListener('compositionend', ({ target, data }) => this.#entered(target, data, 'insertCompositionText'));
  }

  get #field() { return this.cards.find('#code'); }

  get #data() { return this.#field?.dataset ?? {}; }

  get #typed() { return this.#read(this.#field?.value ?? '') || bare(this.#field?.value ?? ''); }

  #read(text) { return codeIn(text, +this.#data.length, this.#data.letters !== undefined); }

  // ready reports whether the field has a whole code that was not sent yet and is not known to be
  // wrong.
  get ready() {
    const code = this.#read(this.#field?.value ?? '');
    return code && this.#field.value !== this.#held && code !== this.#sent && !this.#wrong.has(code);
  }

  // corrected reports whether the field has something else than what was submitted last, not more.
  get corrected() { return this.#sent !== undefined && !this.#typed.startsWith(this.#sent); }

  // #entered handles an edit of the field. A whole code that was inserted at once replaces what was
  // there.
  #entered(field, added, how) {
    if (field.id !== 'code') return;
    const found = this.#read(added ?? '') || this.#read(field.value);
    const more = bare(field.value) !== found, filled = !how || how === 'insertReplacementText';
    this.#held = filled && (more || this.#wrong.size > 0) ? field.value : undefined;
    if (found && more && !filled) field.value = found;
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

  // done reports whether a form has nothing to submit: its field is empty after an error, as when
  // Enter is pressed after a code that was checked by itself. It then says the error again.
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

  // answered remembers a wrong code. It lets the text be submitted again if the answer that came
  // does not keep it as no code, or if no answer came and again is true.
  answered(came, again) {
    const { wrong, keep } = this.#data;
    if (came && wrong !== undefined) this.#wrong.add(this.#sent);
    if (came ? keep === undefined : again) this.#sent = undefined;
  }

  // news reports whether a card says of a code what was not said before.
  news(card) {
    const text = card.querySelector('#code-error')?.textContent;
    return text && text !== this.error?.textContent;
  }

  // drawn asks the browser for the code of a text message (WebOTP), as long as the card has a field
  // for one. It forgets the wrong codes if the card says nothing of what was typed, since the card
  // may be about another code.
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
      field.dispatchEvent(new InputEvent('input', { bubbles: true, inputType: 'insertText' }));
    }).catch(() => {}); // the person or the browser refused
  }

  stop() {
    clearTimeout(this.#pause);
    this.#message?.abort();
    this.#message = undefined;
  }
}

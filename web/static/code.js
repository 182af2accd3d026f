import { moveFocus } from './swap.js';
import { second } from './time.js';

// ascii returns the ASCII form of a digit of any script, or of a Latin letter of any case and
// width, as in codes. A script's ten digits have consecutive code points, so the number of digits
// before a digit is its value.
const ascii = (c) => {
  if (/\p{L}/u.test(c)) return c.normalize('NFKC').toUpperCase();
  let at = c.codePointAt(), n = -1;
  for (; /\p{Nd}/u.test(String.fromCodePoint(at--)); n++);
  return n % 10;
};

// bare returns a text in the form in which codes are compared: only its letters and numbers.
const bare = (text) => text.replace(/[^\p{Alphabetic}\p{N}]/gu, '').replace(/\p{Nd}|[a-zＡ-Ｚａ-ｚ]/gu, ascii);

// consists returns whether all letters and numbers of a text may stand in codes.
const consists = (text, letters) => (letters ? /^[B-DF-HJ-NP-TV-XZ]+$/ : /^\d+$/).test(bare(text));

// codeIn returns the code of this length in a text; '' if there is no code or more than one.
// Format.Find of internal/codes/code does the same; the tests of both use its testdata/typed.json.
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

// slipIn returns the mistake in a text that is no code. Such a text is not sent, so that a typing
// mistake does not cost an attempt.
export function slipIn(text, letters) {
  if (!bare(text)) return 'required';
  return consists(text, letters) ? 'length' : 'foreign';
}

// CodeField handles the field #code of cards (cards.js). It submits a complete code by itself: one
// that was typed, pasted, or received in a text message, also when the connection is back. It does
// not submit too long a text, nor a code that is known to be wrong. For the latter it repeats the
// error, so that one key too many does not cost another attempt. A text from a password manager or
// another filler is submitted only if it is exactly a code of this form, and not after a wrong
// code, since fillers fill each new field (docs/widget.md).
export class CodeField {
  #sent; // the text that was submitted last, while it must not be submitted again automatically
  #wrong = new Set(); // codes that the service called wrong
  #held; // the text of a filler that must not be submitted automatically
  #pause; // timer: delays the check after a deletion, since further deletions may follow
  #message; // ends the wait for a text message
  error; // the element that said that the code is wrong; Swap may have removed it

  constructor(cards) {
    this.cards = cards;
    cards.root.addEventListener('input', ({ target, isComposing, inputType, data }) => {
      cards.composing = isComposing === true;
      if (!isComposing) this.#entered(target, data, inputType);
    });
    // no input event comes after it
    cards.root.addEventListener('compositionend', ({ target, data }) => {
      cards.composing = false;
      this.#entered(target, data, 'insertCompositionText');
    });
  }

  get #field() { return this.cards.find('#code'); }

  get #data() { return this.#field?.dataset ?? {}; }

  get #typed() { return this.#read(this.#field?.value ?? '') || bare(this.#field?.value ?? ''); }

  #read(text) { return codeIn(text, +this.#data.length, this.#data.letters !== undefined); }

  // ready returns whether the field has a complete code that was not sent yet and is not known to
  // be wrong.
  get ready() {
    const code = this.#read(this.#field?.value ?? '');
    return code && this.#field.value !== this.#held && code !== this.#sent && !this.#wrong.has(code);
  }

  // corrected returns whether the text differs from the text that was submitted last, and does not
  // only continue it.
  get corrected() { return this.#sent !== undefined && !this.#typed.startsWith(this.#sent); }

  // #entered handles an edit of the field. If a complete code was inserted at once, it replaces the
  // earlier text.
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

  // #repeat shows the error about a wrong code again.
  #repeat(field) {
    field.value = '';
    field.ariaInvalid = true;
    field.setAttribute('aria-describedby', `code-error ${field.getAttribute('aria-describedby')}`);
    field.parentElement.after(this.error);
    this.cards.say(this.error.textContent, true);
  }

  check() {
    if (!this.ready || this.cards.inquiry.posting) return;
    this.#field.form.requestSubmit(); // also if the browser calls itself offline, which it does wrongly behind some VPNs
  }

  // done returns whether a form has nothing to submit, since its field is empty after an error. For
  // example, a person presses Enter after a code was checked automatically. done shows the error
  // again.
  done(form) {
    const field = this.#field, done = form.contains(field) && field.matches('[aria-invalid="true"]') && field.value === '';
    if (!done) return false;
    moveFocus(this.cards, field);
    this.cards.say(this.cards.find('#code-error').textContent, true);
    return true;
  }

  submitted(form) {
    this.#sent = form.contains(this.#field) ? this.#typed : undefined;
  }

  // answered remembers a wrong code. In two cases it lets the text be submitted again: an answer
  // came that does not call the text no code, or no answer came and again is true.
  answered(came, again) {
    const { wrong, keep } = this.#data;
    if (came && wrong !== undefined) this.#wrong.add(this.#sent);
    if (came ? keep === undefined : again) this.#sent = undefined;
  }

  // news returns whether a card has an error about the code that the last card did not have.
  news(card) {
    const text = card.querySelector('#code-error')?.textContent;
    return text && text !== this.error?.textContent;
  }

  // drawn requests the code of a text message from the browser (WebOTP), as long as the card has a
  // field for such a code. If the card has no note on a typed text, drawn forgets the wrong codes,
  // since the card may be about another code.
  drawn() {
    const { wrong, keep, sms } = this.#data;
    if ((wrong ?? keep) === undefined) this.#wrong.clear();
    if (sms === undefined) return this.stop();
    if (this.#message || !window.OTPCredential) return undefined;
    this.#message = new AbortController();
    const { signal } = this.#message, ask = async () => navigator.credentials.get({ otp: { transport: ['sms'] }, signal });
    return ask().then(({ code }) => {
      this.#message = undefined;
      const field = this.#field; // none: another card came
      if (!field || !(this.#read(code) || !+field.dataset.length && bare(code))) return; // the text has no code of this form
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

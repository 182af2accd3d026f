import { away, offline, ours } from './browser.js';

// moveFocus moves the focus to an element of the card of cards, with a selection, if the focus is
// the widget's. If it may be in the page around a frame, that waits until the person comes back to
// the frame. No other function moves it after an answer.
export function moveFocus(cards, to, range = []) {
  const { root } = cards, go = () => {
    if (!to?.isConnected || !ours(root.host)) return;
    to.focus();
    if (range[0] != null) to.setSelectionRange(...range); // a field for an address has none
  };
  if (away()) addEventListener('focus', () => root.activeElement || go(), { once: true });
  else go();
}

// Swap replaces the whole card of cards (cards.js) by the next one. It keeps the focus and the text
// that a person is typing.
export class Swap {
  #waiting; // timer: shows the next card when no button is pressed any longer

  constructor(cards) { this.cards = cards; }

  // show replaces the card by the next one, which arrived at a moment, and returns whether it did.
  // mine is the form or button that requested the card; then the card is announced, and the focus
  // moves if it is still in the widget. Without mine, the request was automatic. Then the card stays
  // if only times have changed. It also stays while a button is pressed or an input method composes
  // a text; again is called later in that case.
  show(next, moment, { mine, again }) {
    const { cards } = this, old = cards.card, field = cards.find('#code'), active = cards.root.activeElement;
    clearTimeout(this.#waiting);
    const heading = cards.find('#heading')?.textContent, focused = old.contains(active) && active.id, here = ours(cards.root.host);
    if (!mine && old.dataset.rev === next.dataset.rev && this.#sameWaits(old, next, moment)) return false;
    if (!mine && (old.matches(':active') || cards.composing && active || cards.inquiry.posting)) { // a press, or a word, would be lost
      this.#waiting = setTimeout(again, 100);
      return false;
    }
    const same = old.dataset.kind === next.dataset.kind;
    if (!mine && (same || !cards.failed) && cards.typed.some((field) => field.closest('.ask'))) return false; // a person is typing
    if (!mine && offline() && cards.unsent?.isConnected) return false; // the form that was submitted is sent when there is a connection
    const told = cards.failed && cards.code?.news(next);
    if (!same || told) cards.fail(); // the card shows the result of the act
    cards.moment = moment;
    const corrected = cards.code?.corrected;
    cards.replace(next);
    const code = same && field && cards.find('#code');
    if (code && (!mine?.contains(field) || 'keep' in code.dataset || corrected)) code.value = field.value;
    if (code && !mine && !told && !field.matches('[aria-invalid="true"]')) this.mend(code);
    const help = next.querySelector('details');
    if (help) help.open ||= same && !mine && old.querySelector('details').open;
    cards.prepare();
    const title = cards.find('#heading');
    if (mine || title?.textContent !== heading) cards.say(next.dataset.say ?? (here ? '' : title?.textContent), mine);
    queueMicrotask(() => cards.code?.check()); // a code may have been completed while the answer was awaited
    if (!mine && !focused) return true;
    const kept = same && focused && cards.root.getElementById(focused), to = mine && next.querySelector('[aria-invalid="true"]') || kept ||
        next.querySelector('[data-focus]') || title;
    if (to && to === title) to.tabIndex = -1; // only now: otherwise focus() of a widget would move to its heading, not to a control
    moveFocus(cards, to, kept && kept === code ? [field.selectionStart, field.selectionEnd] : []);
    return true;
  }

  // #sameWaits updates the deadlines of a card that is otherwise unchanged. It returns false if the
  // next card has other waits.
  #sameWaits(old, next, moment) {
    const { cards } = this, waits = (c) => [...c.querySelectorAll('[data-wait]')];
    const ours = waits(old), theirs = waits(next), help = old.querySelector('details[data-open]');
    if (ours.length !== theirs.length) return false;
    cards.moment = moment;
    ours.forEach((each, i) => { each.dataset.wait = theirs[i].dataset.wait; });
    if (next.dataset.next) old.dataset.next = next.dataset.next;
    if (help) help.dataset.open = next.querySelector('.help').dataset.open ?? 0;
    cards.tick();
    return true;
  }

  // mend removes the error of a field after the text of the field has changed.
  mend(field) {
    const { cards } = this, error = field?.matches('[aria-invalid="true"]') && cards.find(`#${field.id}-error`);
    if (!error) return;
    field.ariaInvalid = null;
    field.setAttribute('aria-describedby', field.getAttribute('aria-describedby').replace(error.id, '').trim());
    error.remove();
    if ('wrong' in field.dataset) cards.code.error = error;
  }

  stop() { clearTimeout(this.#waiting); }
}

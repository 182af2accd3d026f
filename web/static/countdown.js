import { clock, clockFrom, digits, lasting, minute, put, second, zoned } from './time.js';

const glance = second / 2; // ms between comparisons of the clocks during a wait, since a timer does not notice that the machine slept

// Countdown updates the waits on the card of cards (cards.js). It computes every step from the
// deadline, so a throttled or frozen tab is right again at once. The element of a wait has these
// attributes: data-wait, its milliseconds from the answer on; data-short and data-long, the
// patterns of its text; data-done, its text at the end; and data-minutes if its text changes only
// each minute. A time of the day has data-at, its milliseconds, and the pattern data-text. The
// button #again has data-over, the text for screen readers at the end of its wait. On the card,
// data-next is when its state changes by itself; on the help, data-open is when the help opens.
export class Countdown {
  #ticking;
  #zoned = zoned(); // else times are told as durations

  constructor(cards) { this.cards = cards; }

  clock(ms, round) { return clock(this.cards.moment, ms, this.cards.words, round); }

  // write writes the times of the day. If daylight saving time starts or ends before a time, 1:05
  // may be past or come twice. Then an element with data-counted becomes a countdown, and also if
  // the time zone is unknown. Its end is shown once by data-counted.
  write() {
    const zone = (ms) => new Date(Date.now() + Number(ms)).getTimezoneOffset();
    for (const each of this.cards.card.querySelectorAll('[data-at]')) {
      const { at, text, round, counted } = each.dataset;
      if (this.#zoned) each.textContent = put(text, { c: this.clock(at, round) });
      else if (counted && at > 0) each.textContent = put(counted, { d: lasting(at, this.cards.words) });
      if (counted && at > 0 && !(this.#zoned && zone(0) === zone(at))) Object.assign(each.dataset,
          { wait: at, short: counted, long: counted, minutes: '', done: '' });
    }
  }

  // #grow writes the times of the day that are past as durations, which grow, if the time zone is
  // unknown. For the first minute, data-now may have another text.
  #grow(gone) {
    for (const each of this.#zoned ? [] : this.cards.card.querySelectorAll('[data-at][data-counted]')) {
      const { at, counted, now } = each.dataset, age = gone - at;
      if (at <= 0) each.textContent = now !== undefined && age < minute ? now : put(counted, { d: lasting(age, this.cards.words) });
    }
  }

  stop() {
    clearTimeout(this.#ticking);
  }

  tick() {
    this.stop();
    // alone: the clocks disagree, and a question to the server did not help
    const { card, moment, inquiry } = this.cards, alone = moment.parted() && !inquiry.unsure(moment);
    const gone = moment.elapsed(), certain = moment.certain(), steps = [minute], help = card.querySelector('.help');
    this.#grow(gone);
    for (const each of card.querySelectorAll('[data-wait]')) {
      const { wait } = each.dataset;
      if (wait > (alone ? gone : certain)) steps.push(glance, this.#count(each, Math.max(wait - gone, Math.min(wait - certain, second))));
      else this.#done(each);
    }
    const after = (element, name, run) => {
      if (!element || !(name in element.dataset)) return;
      const left = element.dataset[name] - gone;
      if (left > 0) return void steps.push(left);
      delete element.dataset[name];
      run();
    };
    after(card, 'next', () => inquiry.refresh());
    after(help, 'open', () => { help.open = true; });
    this.#ticking = setTimeout(() => this.tick(), Math.max(10, Math.min(...steps)));
  }

  // #count writes the rest of a wait. It returns the milliseconds until the text changes.
  #count(each, left) {
    const { wait, short, long, minutes } = each.dataset, far = left >= clockFrom, step = far || minutes !== undefined ? minute : second;
    const d = lasting(Math.ceil(left / step) * step, this.cards.words), named = far && this.#zoned;
    const text = put(named ? long : short, { t: far ? d : digits(left), d, c: named ? this.clock(wait, 'up') : '' });
    if (each.textContent !== text) each.textContent = text;
    const button = each.closest('#again');
    if (button) button.querySelector('.bar rect').style.width = `${100 * Math.max(0, left - second) / button.dataset.total}px`;
    return left % step || step;
  }

  #done(each) {
    const button = each.closest('#again');
    each.removeAttribute('data-wait');
    each.textContent = each.dataset.done;
    each.closest('.blocked')?.classList.remove('blocked');
    if (!button) return;
    button.ariaDisabled = null;
    button.querySelector('.label').textContent = button.dataset.ready;
    button.querySelector('.bar').remove();
    each.remove();
    this.cards.say(button.dataset.over);
    this.cards.inquiry.soon();
  }
}

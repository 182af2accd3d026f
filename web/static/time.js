// Waits and clocks. The server gives waits relative to its answer, and does not know the reader's
// time zone. So this script writes times of the day.

import { attempt } from './browser.js';

export const second = 1000, minute = 60 * second;
export const clockFrom = 10 * minute; // longer waits are shown as a time of the day; minWaitShownAsClock of internal/http/page

// put replaces each {name} of a pattern by its value. If a value ends with a dot, as 7:34 p. m.,
// put drops a dot of the pattern after it.
export const put = (pattern, values) => pattern.replace(/\{(\w+)\}(\.?)/g, (whole, name, dot) => {
  const value = values[name];
  return value === undefined || value === null ? whole : String(value).endsWith('.') ? value : value + dot;
});

const apart = second / 4; // ms: the largest difference of clocks that agree

// Moment is the time at which an answer arrived: steady by the clock of performance.now, wall by
// that of Date. old means that the clocks came to disagree while the answer was on its way.
export class Moment {
  constructor(at = performance.now(), old = false) {
    this.steady = at;
    this.wall = Date.now() - (performance.now() - at);
    this.old = old;
  }

  service; // the service's time, in ms, if the answer told it

  // elapsed returns the milliseconds since the Moment. performance.now can stand still while a
  // machine sleeps, and the clock can be set back. The larger of the two counts, so a wait can only
  // end too early; then the server says so.
  elapsed() {
    return Math.max(this.certain(), Date.now() - this.wall, 0);
  }

  // certain returns how much time has passed at least.
  certain() {
    return performance.now() - this.steady;
  }

  // parted returns whether the clocks disagree since the Moment: the machine slept, or its clock
  // was set. Only the server can tell which.
  parted() {
    return this.old || Math.abs(Date.now() - this.wall - this.certain()) > apart;
  }
}

// clock returns the time of the day ms after a moment, to the minute: 14:02 or 2:02 PM, as in the
// browser's region, without line breaks. The time of another day has its weekday, or its date. With
// round 'up' it rounds up, except for 2 s, which an answer may have taken: a wait must be over by
// then.
export function clock(moment, ms, words, round) {
  const { hourCycle = 'h23' } = attempt(() => new Intl.DateTimeFormat(undefined, { hour: 'numeric' }).resolvedOptions(), {});
  const exact = moment.wall + Number(ms);
  const date = new Date(round === 'up' ? Math.ceil(exact / minute - 1 / 30) * minute : exact);
  // the digits are those of the counts beside the time
  const parts = { hour: hourCycle.startsWith('h2') ? '2-digit' : 'numeric', minute: '2-digit', hourCycle, numberingSystem: 'latn' };
  const told = (of, other) => attempt(() => new Intl.DateTimeFormat(words.Lang, of).format(date), other);
  let time = told(parts, /\d+:\d+/.exec(date.toTimeString())[0]);
  if (date.toDateString() !== new Date().toDateString()) {
    const near = Math.abs(date - new Date()) < 6 * 24 * 60 * minute, day = near ? told({ weekday: 'short' }, date.toDateString().slice(0, 3))
      : told({ month: 'short', day: 'numeric', numberingSystem: 'latn' }, date.toDateString().slice(4, 10));
    time = put(words.OtherDay, { c: time, day });
  }
  return time.replaceAll(' ', '\u00a0');
}

// zoned returns whether the browser tells the reader's time zone. Browsers that resist
// fingerprinting give UTC, or Iceland's zone, to every site.
export const zoned = () => !['UTC', 'Atlantic/Reykjavik'].includes(attempt(() => new Intl.DateTimeFormat().resolvedOptions().timeZone));

// loaded returns the Moment at which the page itself arrived.
export function loaded() {
  const { timeOrigin } = performance, at = attempt(() => performance.getEntriesByType('navigation')[0].responseStart) || performance.now();
  return new Moment(at, Math.abs(timeOrigin + performance.now() - Date.now()) > apart);
}

// digits returns a wait in the form 0:42, rounded up.
export function digits(ms) {
  const s = Math.ceil(ms / second);
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`;
}

// lasting returns a duration in words, rounded up: 42 s, 28 min, 3 h 20 min.
export function lasting(ms, words) {
  const s = Math.ceil(ms / second), all = Math.ceil(s / 60), h = Math.floor(all / 60), m = all % 60;
  if (s < 60) return put(words.Seconds, { s });
  if (h === 0) return put(words.Minutes, { m });
  return put(m === 0 ? words.Hours : words.HoursMinutes, { h, m });
}

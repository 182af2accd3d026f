import { attempt } from '../static/browser.js';

// Kept is a text in a storage of this site. In sessionStorage a widget keeps the ID of its
// verification, for a reload of this tab, and the Idempotency-Key of a send until its answer. With
// the ID and the public key, a script can read the masked address, try codes and request another
// code; but each script of the site could do that with the widget's own fields. In localStorage a
// widget keeps the tokens of a known browser. Our own page, whose element has the attribute shared,
// also keeps that ID there, for all tabs but only for some hours, since other people may use the
// browser. No address and no code is ever stored. If storage is forbidden, a reload begins anew in
// an unknown browser.
export class Kept {
  // The name separates the widgets of one page.
  constructor(area, ...name) {
    this.area = area;
    this.name = ['sendcode', ...name].join(' ');
  }

  get() {
    const [text, until = Infinity] = (attempt(() => window[this.area].getItem(this.name)) ?? '').split(' ');
    return Date.now() < until ? text : '';
  }

  // set keeps a text. If life is given, it keeps the text for so many milliseconds.
  set(text, life) {
    if (!text) return this.forget();
    return attempt(() => window[this.area].setItem(this.name, life ? `${text} ${Date.now() + life}` : text));
  }

  forget() {
    attempt(() => window[this.area].removeItem(this.name));
  }
}

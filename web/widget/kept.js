import { attempt } from '../static/browser.js';

// Kept is a text in a storage of this site. In sessionStorage a widget keeps the ID of its verification, for a reload of this tab, and the
// Idempotency-Key of a send until its answer. With the ID and the public key, a script can read the masked address, try codes and ask for another one: each script of the site could do
// that with the widget's own fields. In localStorage it keeps the tokens of a known browser. No address and no code is ever stored. Where
// storage is forbidden, a reload begins anew in an unknown browser.
export class Kept {
  // The name keeps widgets of one page apart.
  constructor(area, ...name) {
    this.area = area;
    this.name = ['sendcode', ...name].join(' ');
  }

  get() {
    return attempt(() => window[this.area].getItem(this.name)) ?? '';
  }

  set(text) {
    attempt(() => window[this.area].setItem(this.name, text));
  }

  forget() {
    attempt(() => window[this.area].removeItem(this.name));
  }
}

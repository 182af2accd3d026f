// Kept remembers which verification a widget is at, through a reload: its ID alone, in sessionStorage, for this tab and
// this site. No address and no code is ever stored. With the ID and the public key, one can read the masked address,
// try codes and ask for another one: that is what every script of the site could do with the widget's own fields, so it is
// given to no one new; docs/decisions has the reasons. Where storage is forbidden, a reload begins anew.
export class Kept {
  // name keeps widgets of one page apart.
  constructor(...name) {
    this.name = ['sendcode', ...name].join(' ');
  }

  get() {
    return this.#try((storage) => storage.getItem(this.name)) ?? '';
  }

  set(id) {
    this.#try((storage) => storage.setItem(this.name, id));
  }

  forget() {
    this.#try((storage) => storage.removeItem(this.name));
  }

  #try(act) {
    try {
      return act(sessionStorage);
    } catch {
      return undefined;
    }
  }
}

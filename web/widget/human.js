import { attempt } from '../static/browser.js';
import { second } from '../static/time.js';
import { prove } from '../static/work.js';
import { h } from './dom.js';

// The human check, loaded when the service asks for one: a vendor's in the light tree, since their
// scripts look for their elements in the document, else work. A vendor that does not come, fails,
// or is declined by the person is replaced by work, where that would do.

export const { lang, mails, phones } = SENDCODE;

const patience = 8 * second; // until a vendor's check is shown
const action = 'sendcode';
const inApp = /FBA[NV]|Instagram|Line\/|MicroMessenger|Snapchat|TikTok|; wv\)/; // browsers in which vendors do not work

const scripts = {};

// script loads a vendor's script, once. One that is late is waited for again by the next check.
const script = (src) => scripts[src] ??= new Promise((go, no) => {
  const element = h('script', { src, async: true });
  element.onload = go;
  element.onerror = () => {
    element.remove();
    delete scripts[src];
    no(new Error(src));
  };
  document.head.append(element);
});

const common = (sitekey, callback, failed) => ({ sitekey, callback, 'error-callback': failed, 'expired-callback': failed });

// vendors show the check in a place: they call done with the token, or failed, and return what ends
// it, or a promise of that.
const vendors = {
  turnstile: {
    src: 'https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit',
    show(place, key, done, failed) {
      const id = turnstile.render(place,
          { ...common(key, done, failed), action, 'timeout-callback': failed, 'unsupported-callback': failed });
      return () => turnstile.remove(id);
    },
  },
  hcaptcha: {
    src: 'https://js.hcaptcha.com/1/api.js?render=explicit',
    show(place, key, done, failed) {
      const id = hcaptcha.render(place, common(key, done, failed));
      return () => hcaptcha.remove(id);
    },
  },
  recaptcha: { // recaptcha.net works where google.com is blocked
    src: 'https://www.recaptcha.net/recaptcha/api.js?render=explicit',
    async show(place, key, done, failed) {
      await new Promise((go) => grecaptcha.ready(go)); // what is thrown within its callback would reach nobody
      if (!place.isConnected) return; // too late
      grecaptcha.render(place, common(key, done, failed));
    },
  },
};

// asked lets the page show a check of its own: with preventDefault it takes over, and calls respond
// with a token, or without one for ours.
const asked = (element, by, site_key) => new Promise((respond) => {
  if (element.dispatchEvent(new CustomEvent('humancheck', { detail: { by, site_key, respond }, bubbles: true, cancelable: true }))) respond(
      );
});

// holds says whether the focus is in a node.
const holds = (node) => node.contains(node.getRootNode().activeElement);

const declined = Symbol('declined'); // why there is no token: the person chose so

// answer resolves to the token of what is asked; undefined: it cannot be answered. What it shows is
// below the form whose button is busy.
export async function answer({ element, cards, words }, { by, site_key: key, work }) {
  const own = await asked(element, by, key);
  if (own) return own;
  const { email: w } = words(), busy = cards.find('.busy'), form = busy?.closest('form') ?? cards.card.lastChild, vendor = vendors[by];
  let why;
  const token = vendor && !inApp.test(navigator.userAgent)
    && await byVendor(vendor, { element, cards, busy, form, key, work, w }).catch((reason) => { why = reason; });
  if (token || !work) return token;
  const proof = prove(cards, form, work, vendor && why !== declined ? w.HumanInstead : w.HumanWork, w.HumanProgress);
  const bar = why === declined && cards.find('progress');
  if (!bar) return proof;
  bar.tabIndex = -1;
  bar.focus();
  await proof;
  if (document.activeElement === document.body) busy?.focus(); // the bar is gone
  return proof;
}

// byVendor resolves to the vendor's token. Each check is a new one, since a token is good once.
async function byVendor(vendor, { element, cards, busy, form, key, work, w }) {
  const place = h('div', { slot: 'human' }),
      decline = h('button', { type: 'button', class: 'link', part: 'link' }, work ? w.HumanDecline : w.HumanUnable);
  const box = h('div', { class: 'box note', part: 'note' }, h('p', {}, w.HumanVendor), h('slot', { name: 'human' }), decline);
  let end, late;
  element.append(place);
  try {
    return await new Promise((done, failed) => {
      const show = async () => {
        await script(vendor.src);
        if (!place.isConnected) return;
        form.after(box);
        cards.say(w.HumanVendor, true);
        end = await vendor.show(place, key, done, failed);
        clearTimeout(late);
        if (!place.isConnected) end?.();
      };
      late = setTimeout(failed, patience);
      decline.addEventListener('click', () => failed(declined));
      show().catch(failed);
    });
  } finally {
    const held = holds(box) || holds(place);
    clearTimeout(late);
    attempt(() => end?.());
    place.remove();
    box.remove();
    if (held) busy?.focus();
  }
}

import { attempt, ours } from '../static/browser.js';
import { second } from '../static/time.js';
import { prove } from '../static/work.js';
import { h } from './dom.js';

// The human check, which is loaded when the service requires one. A vendor's check stands in the
// light tree, since vendors' scripts look for their elements in the document. Otherwise the check
// is work. If a vendor does not load, fails, or is declined by the person, work replaces it, if the
// service accepts work.

export const { lang, mails, phones } = SENDCODE;

const patience = 8 * second; // until a vendor's check is shown
const action = 'sendcode';
const inApp = /FBA[NV]|Instagram|Line\/|MicroMessenger|Snapchat|TikTok|; wv\)/; // browsers in which vendors' checks do not work

const widest = 304; // px: the largest width of a vendor's check that is not compact

const scripts = {};

// script loads a vendor's script, once. If it loads too late, the next check waits for it again. If
// the vendor's object is missing afterwards, another one has answered in the vendor's place, such as a
// firewall. Then the next check loads the script anew.
const script = (src, object, language = '') => scripts[src] ??= new Promise((go, no) => {
  const element = h('script', { src: src + language, async: true });
  element.onload = () => window[object] ? go() : element.onerror();
  element.onerror = () => {
    element.remove();
    delete scripts[src];
    no(new Error(src));
  };
  document.head.append(element);
});

// vendors show their checks in a place, with common options. Each returns a function that ends the
// check, or a promise of such a function. object: the variable that the vendor's script sets. apart: a part of the
// check is shown in the body, over everything else.
const vendors = {
  turnstile: {
    object: 'turnstile',
    src: 'https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit',
    show(place, { hl, ...all }, failed) {
      const id = turnstile.render(place, { ...all, language: hl, action, 'timeout-callback': failed, 'unsupported-callback': failed });
      return () => turnstile.remove(id);
    },
  },
  hcaptcha: {
    object: 'hcaptcha',
    src: 'https://js.hcaptcha.com/1/api.js?render=explicit',
    apart: true,
    show(place, all) {
      const id = hcaptcha.render(place, all);
      return () => hcaptcha.remove(id);
    },
  },
  recaptcha: { // recaptcha.net works where google.com is blocked
    object: 'grecaptcha',
    src: 'https://www.recaptcha.net/recaptcha/api.js?render=explicit',
    apart: true,
    async show(place, all) {
      await new Promise((go) => grecaptcha.ready(go)); // an error thrown within the callback of ready would be lost
      if (!place.isConnected) return; // too late
      grecaptcha.render(place, all);
    },
  },
};

// optionsFor returns the options for each vendor: the width of the place, and whether the place is
// dark.
function optionsFor(place, sitekey, hl, callback, failed) {
  place.style.color = 'light-dark(#000, #fff)';
  const dark = getComputedStyle(place).color === 'rgb(255, 255, 255)';
  place.style.color = '';
  return { sitekey, hl, callback, 'error-callback': failed, 'expired-callback': failed, theme: dark ? 'dark' : 'light',
    size: place.clientWidth < widest ? 'compact' : 'normal' };
}

// covers returns whether the part of the page with a node lies over the body, or blocks the rest of
// the page.
const covers = (node) => node && node !== document.body && (node.matches(':is(:modal, :popover-open, :fullscreen, [aria-modal="true"])') ||
    covers(node.assignedSlot ?? node.parentElement ?? node.getRootNode().host));
const barred = (element) => covers(element) || getComputedStyle(document.body).pointerEvents === 'none';

// asked lets the page show a check of its own. A page that calls preventDefault calls respond with
// a token, or without one for our check.
const asked = (element, by, site_key) => new Promise((respond) => {
  if (element.dispatchEvent(new CustomEvent('humancheck', { detail: { by, site_key, respond }, bubbles: true, cancelable: true }))) respond(
      );
});

// holds returns whether the focus is in a node.
const holds = (node) => node.contains(node.getRootNode().activeElement);

// Why there is no token: the person declined, or the page removed the check.
const declined = Symbol('declined'), taken = Symbol('taken');

// answer resolves to the token of the required check; undefined: the check cannot be done. It shows
// the check below the form whose button is busy. A vendor's check that the page removed is shown
// once more.
export async function answer({ element, cards, words }, { by, site_key: key, work }) {
  const own = await asked(element, by, key);
  if (own) return own;
  const vendor = work && vendors[by]?.apart && barred(element) ? undefined : vendors[by];
  let why;
  const check = () => byVendor(vendor, { element, cards, words, key, work });
  const again = (reason) => { if (reason === taken) return check(); throw reason; };
  const token = vendor && !inApp.test(navigator.userAgent) && await check().catch(again).catch((reason) => { why = reason; });
  if (token || !work) return token;
  const { busy, form } = submitted(cards), { email: w } = words();
  const proof = prove(cards, form, work, vendor && why !== declined ? w.HumanInstead : w.HumanWork, w.HumanProgress);
  const bar = why === declined && cards.find('progress');
  if (!bar) return proof;
  bar.tabIndex = -1;
  if (ours(element)) bar.focus();
  await proof;
  if (!cards.root.activeElement && ours(element)) busy?.focus(); // the bar is gone
  return proof;
}

// submitted returns the busy button with its form; if the card was drawn anew, the place where a
// check is shown.
function submitted(cards) {
  const busy = cards.find('.busy');
  return { busy, form: busy?.closest('form') ?? cards.card.lastChild };
}

// byVendor resolves to the vendor's token. Each call shows a new check, since a token is valid
// once.
async function byVendor(vendor, { element, cards, words, key, work }) {
  const { email: w } = words(), place = h('div', { slot: 'human' }), hl = w.Lang.replace('-Hans', '-CN'),
      decline = h('button', { type: 'button', class: 'link', part: 'link' }, work ? w.HumanDecline : w.HumanUnable);
  const box = h('div', { class: 'box note', part: 'note' }, h('p', {}, w.HumanVendor), h('slot', { name: 'human' }), decline);
  let end, late, watch;
  for (const copied of element.querySelectorAll(':scope > [slot=human]')) copied.remove(); // by a cache of the page
  element.append(place);
  try {
    return await new Promise((done, failed) => {
      let shown, filled, moved;
      // A frame that is moved loads again, and loses the state that the vendor's script gave it.
      watch = new MutationObserver((records) => {
        filled ||= place.firstChild;
        moved ||= records.some(({ removedNodes }) => [...removedNodes].some((node) => node.contains(place)));
        if (element.isConnected && (moved || place.parentNode !== element || place.slot !== 'human' || shown && !box.isConnected ||
            filled && !place.firstChild)) failed(taken);
      });
      for (const root of [document, element.getRootNode(), cards.root]) {
        watch.observe(root, { childList: true, subtree: true, attributeFilter: ['slot'] });
      }
      const show = async () => {
        await script(vendor.src, vendor.object, vendor.apart && `&hl=${hl}`);
        if (!place.isConnected) return;
        submitted(cards).form.after(box);
        shown = true;
        cards.say(w.HumanVendor, true);
        end = await vendor.show(place, optionsFor(place, key, hl, done, failed), failed);
        clearTimeout(late);
        if (!place.isConnected) end?.();
      };
      late = setTimeout(failed, patience);
      decline.addEventListener('click', () => failed(declined));
      show().catch(failed);
    });
  } finally {
    const held = holds(box) || holds(place);
    watch.disconnect();
    clearTimeout(late);
    attempt(() => end?.());
    if (place.slot === 'human') place.remove(); // otherwise the page has given the place another use
    box.remove();
    if (held) submitted(cards).busy?.focus();
  }
}

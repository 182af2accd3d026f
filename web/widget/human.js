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

const widest = 304; // px that a vendor's check takes at most, where it is not compact

const scripts = {};

// script loads a vendor's script, once. One that is late is waited for again by the next check.
const script = (src, language = '') => scripts[src] ??= new Promise((go, no) => {
  const element = h('script', { src: src + language, async: true });
  element.onload = go;
  element.onerror = () => {
    element.remove();
    delete scripts[src];
    no(new Error(src));
  };
  document.head.append(element);
});

// vendors show the check in a place, with the options that all have: they return what ends it, or a
// promise of that. apart: a part of the check is shown in the body, beside everything.
const vendors = {
  turnstile: {
    src: 'https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit',
    show(place, { hl, ...all }, failed) {
      const id = turnstile.render(place, { ...all, language: hl, action, 'timeout-callback': failed, 'unsupported-callback': failed });
      return () => turnstile.remove(id);
    },
  },
  hcaptcha: {
    src: 'https://js.hcaptcha.com/1/api.js?render=explicit',
    apart: true,
    show(place, all) {
      const id = hcaptcha.render(place, all);
      return () => hcaptcha.remove(id);
    },
  },
  recaptcha: { // recaptcha.net works where google.com is blocked
    src: 'https://www.recaptcha.net/recaptcha/api.js?render=explicit',
    apart: true,
    async show(place, all) {
      await new Promise((go) => grecaptcha.ready(go)); // what is thrown within its callback would reach nobody
      if (!place.isConnected) return; // too late
      grecaptcha.render(place, all);
    },
  },
};

// optionsFor returns the options for each vendor: the width of the place, and whether it is dark.
function optionsFor(place, sitekey, hl, callback, failed) {
  place.style.color = 'light-dark(#000, #fff)';
  const dark = getComputedStyle(place).color === 'rgb(255, 255, 255)';
  place.style.color = '';
  return { sitekey, hl, callback, 'error-callback': failed, 'expired-callback': failed, theme: dark ? 'dark' : 'light',
    size: place.clientWidth < widest ? 'compact' : 'normal' };
}

// covers says whether a part of the page that has a node lies over the body, or bars the rest of it.
const covers = (node) => node && node !== document.body && (node.matches(':is(:modal, :popover-open, :fullscreen, [aria-modal="true"])') ||
    covers(node.assignedSlot ?? node.parentElement ?? node.getRootNode().host));
const barred = (element) => covers(element) || getComputedStyle(document.body).pointerEvents === 'none';

// asked lets the page show a check of its own: with preventDefault it takes over, and calls respond
// with a token, or without one for ours.
const asked = (element, by, site_key) => new Promise((respond) => {
  if (element.dispatchEvent(new CustomEvent('humancheck', { detail: { by, site_key, respond }, bubbles: true, cancelable: true }))) respond(
      );
});

// holds says whether the focus is in a node.
const holds = (node) => node.contains(node.getRootNode().activeElement);

// Why there is no token: the person chose so, or the page took the check away.
const declined = Symbol('declined'), taken = Symbol('taken');

// answer resolves to the token of what is asked; undefined: it cannot be answered. What it shows is
// below the form whose button is busy. A vendor's check that the page took away is shown once more.
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
  bar.focus();
  await proof;
  if (document.activeElement === document.body) busy?.focus(); // the bar is gone
  return proof;
}

// submitted is the busy button with its form, or where a check is shown after the card was drawn anew.
function submitted(cards) {
  const busy = cards.find('.busy');
  return { busy, form: busy?.closest('form') ?? cards.card.lastChild };
}

// byVendor resolves to the vendor's token. Each check is a new one, since a token is good once.
async function byVendor(vendor, { element, cards, words, key, work }) {
  const { email: w } = words(), place = h('div', { slot: 'human' }), hl = w.Lang.replace('-Hans', '-CN'),
      decline = h('button', { type: 'button', class: 'link', part: 'link' }, work ? w.HumanDecline : w.HumanUnable);
  const box = h('div', { class: 'box note', part: 'note' }, h('p', {}, w.HumanVendor), h('slot', { name: 'human' }), decline);
  let end, late, watch;
  for (const copied of element.querySelectorAll(':scope > [slot=human]')) copied.remove(); // with the page, by a cache of it
  element.append(place);
  try {
    return await new Promise((done, failed) => {
      let shown, filled, moved;
      // A frame that is moved begins anew, without what its vendor has told it.
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
        await script(vendor.src, vendor.apart && `&hl=${hl}`);
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
    if (place.slot === 'human') place.remove(); // else the page has made it another one
    box.remove();
    if (held) submitted(cards).busy?.focus();
  }
}

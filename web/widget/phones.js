import { attempt } from '../static/browser.js';
import look from '../static/phone.css';
import { attendPhones } from '../static/phone.js';
import { second } from '../static/time.js';
import { h, pieces } from './dom.js';
import { act, field as entry, link } from './parts.js';

// Text messages: the field for a number, and the way from one channel to the other. They are a
// module of their own, which is loaded if a site offers text messages.

export const { lang, mails, phones } = SENDCODE;
export const styles = [look];

export const attend = (root) => attendPhones(root, new URL(SENDCODE.plans, new URL('../../', import.meta.url)));

const other = (channel) => channel === 'sms' ? 'email' : 'sms';

// field returns the field for a number. A number without its country code may have been refused before the
// countries were known. Since their choice is now there, the person need not type the code.
export function field(w, its, countries, country) {
  const { BadAddress: refusals } = w; // this module has all texts about numbers
  if (countries.length > 0 && its.wrong === refusals.no_country_code) its.wrong = w.CountryCheck;
  const text = hinted(w, countries, country);
  const hint = h('p', { id: 'phone-hint', class: 'under', 'data-text': countries.length > 1 && w.PhoneHint }, text);
  return entry(w, 'phone', { type: 'tel', autocomplete: 'tel', maxlength: 64 }, { ...its, hint }, choiceOfCountry(w, countries, country));
}

function hinted(w, countries, code) {
  const chosen = countries.find((c) => c.country === code), fill = (text) => text.replace('{example}', chosen.example);
  if (!chosen?.example) return w.PhoneHintAny;
  return countries.length > 1 ? fill(w.PhoneHint) : fill(w.PhoneHintOne).replace('{country}', named(w)(code)).replace('{dial}',
      chosen.dial_code);
}

const named = (w) => {
  const names = attempt(() => new Intl.DisplayNames([w.Lang], { type: 'region' }));
  return (code) => names?.of(code) ?? code;
};

function choiceOfCountry(w, countries, chosen) {
  if (countries.length < 2) return countries.length > 0 && h('input', { type: 'hidden', id: 'country', value: countries[0].country });
  const name = named(w);
  const sorted = countries.map((c) => ({ ...c, name: name(c.country) })).sort(
      (a, b) => attempt(() => a.name.localeCompare(b.name, w.Lang)));
  return [
    h('label', { for: 'country', part: 'label' }, w.CountryLabel),
    h('select', { id: 'country', autocomplete: 'country', part: 'input' },
      sorted.map((c) => h('option', { value: c.country, selected: c.country === chosen }, `${c.name} (\u200e${c.dial_code})`))),
  ];
}

// here returns the country that is offered first: the region of the browser's language, then the
// site's country, then a country in which the language is mostly spoken.
export function here(countries, site) {
  const served = (code) => countries.some((c) => c.country === code),
      languages = navigator.languages?.map((l) => attempt(() => new Intl.Locale(l))) ?? [];
  return [...languages.map((l) => l?.region), site, ...languages.map((l) => l?.maximize().region)].find(served) ?? countries[0]?.country;
}

// patient returns the text that the message may still arrive: most messages do within the shortest
// wait.
function patient({ send }, quota) {
  if (send.status === 'queued' || send.status === 'sending') return true;
  return (send.status === 'sent' || send.status === 'delivered') && quota.retry_after > 0 && quota.retry_after <= 60;
}

// instead returns the way to the other channel, if the site has one. Beside the field for a code,
// while its message may still arrive, it is only a way to a code that was requested already. A wait
// on the other channel is shown only if it was requested in this widget.
export function instead(w, { channel, channels, there, view, quota }, code) {
  const to = other(channel), sms = to === 'sms';
  if (!channels.includes(to)) return null;
  const enter = there?.view?.status === 'pending' && h('p', { class: 'aside' }, link('besides', sms ? w.EnterSMSCode : w.EnterMailCode));
  const label = sms ? w.InsteadSMS : w.InsteadMail, quiet = { class: 'button quiet', part: 'button quiet' };
  if (code && patient(view, quota)) return enter && h('div', { class: 'instead' }, enter);
  if (!there?.to && !there?.view) {
    return h('div', { class: 'instead' },
        h('p', { class: 'act' }, h('button', { type: 'button', id: 'instead', ...quiet, 'data-act': 'instead' }, label)));
  }
  return h('div', { class: 'instead' },
    act('other', h('button', { id: 'other', ...quiet, 'aria-describedby': 'other-to' }, label)),
    h('p', { class: 'under' }, h('span', { id: 'other-to', class: 'whole', dir: 'auto' }, pieces(there.view?.to ?? there.to)), there.wait > 0 && [
      ' · ', h('span', { 'data-wait': there.wait, 'data-short': w.InsteadIn, 'data-long': w.InsteadAt, 'data-done': w.InsteadNow }),
    ]),
    enter);
}

// left returns how many milliseconds the quota of another moment still waits at this moment.
export const left = (quota, then, now) => Math.max(0,
    (quota?.retry_after_ms ?? (quota?.retry_after ?? 0) * second) - (now.steady - then.steady));

import { h } from './dom.js';

// This module has the parts of the widget's cards. They have the same classes and the same data for the countdown
// as the page's templates.

// act returns a form with one act.
export const act = (does, ...children) => h('form', { class: does === 'send' ? 'act ask' : 'act', 'data-act': does, novalidate: true },
    children);

export const box = (tone, text) => text && h('p', { class: `box ${tone}`, part: `note ${tone}` }, text);

export const link = (does, text) => h('button', { type: 'button', id: `go-${does}`, class: 'link change', part: 'link', 'data-act': does },
    text);

export const lead = (...children) => h('p', { class: 'lead', part: 'lead' }, children);

// heading returns a heading with a slot, in which a site may put its own words.
export const heading = (text, slot) => h('h2', { id: 'heading', part: 'heading' }, slot ? h('slot', { name: slot }, text) : text);

export const dots = () => h('span', { class: 'dots', 'aria-hidden': 'true' }, h('i'), h('i'), h('i'));

// choice returns radio buttons with one name, so that only one can be chosen.
export const choice = (w, channels, chosen) => h('fieldset', { class: 'choices' },
    h('legend', { class: 'visually-hidden' }, w.ChannelLabel),
  channels.map((c) => h('label', { class: 'choice' },
    h('input', { type: 'radio', name: 'channel', id: `by-${c}`, value: c, checked: c === chosen }),
        h('span', { part: 'choice' }, c === 'sms' ? w.BySMS : w.ByMail))));

// field returns the field for a recipient; wrong is the text about a mistake in it.
export const field = (w, id, own, { value, wrong, focus, hint, doubt }, ...before) => h('div',
    { class: `field by-${id === 'phone' ? 'sms' : 'email'}` },
  before, h('label', { for: id, part: 'label' }, w.AddressLabel),
  h('input', {
    id, ...own, spellcheck: 'false', required: true, dir: 'ltr', value: value ?? '', part: 'input', 'data-focus': focus,
    'aria-invalid': wrong && 'true',
        'aria-describedby': [wrong && `${id}-error`, doubt && `${id}-doubt`, hint && `${id}-hint`].filter(Boolean).join(' ') || null,
  }),
  wrong && h('p', { id: `${id}-error`, class: 'error', part: 'error' }, wrong), doubt &&
      h('p', { id: `${id}-doubt`, class: 'under' }, doubt), hint);

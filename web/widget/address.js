import { attempt } from '../static/browser.js';
import { h } from './dom.js';

// How an element gives its proof to its form. A form that is a GET gets none, since it would put it
// into the page's address.

const pressed = new WeakMap(); // by form: the button that submits it
const warned = new WeakSet();

// gets says whether the element's form is a GET, and tells the developer once. A form of React,
// whose action is a script, is none.
export function gets(element) {
  const { form } = element, of = (name) => pressed.get(form)?.getAttribute(`form${name}`) ?? form.getAttribute(name);
  if (!form || /^(post|dialog)$/i.test(of('method')) || /^javascript:/i.test(of('action'))) return false;
  if (!warned.has(element)) console.warn('<send-code>: this form gets no proof, which its address would show; give it method="post"');
  warned.add(element);
  return true;
}

// guard hears a form's events submit and formdata. What comes of a press is done before the next
// task. Where a library has put the form's own validation out of use and knows input elements alone,
// the element asks for its proof by itself.
export function guard(element, event) {
  const { target, submitter, formData } = event, { form, name, value } = element;
  if (target !== form) return;
  if (formData) {
    const all = formData.getAll(name), twice = all.indexOf(value) !== all.lastIndexOf(value) && mirrors.has(element);
    if (gets(element) || twice) formData.delete(name);
    if (!gets(element) && twice) for (const each of new Set(all)) formData.append(name, each);
    return;
  }
  pressed.set(target, submitter);
  setTimeout(() => pressed.delete(target));
  const data = form.noValidate && !submitter?.formNoValidate && attempt(() => jQuery(form).data());
  if (!data?.validator && !data?.Parsley || element.checkValidity()) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  element.reportValidity();
}

const mirrors = new WeakMap(); // by element: its input

// mirror gives the proof to libraries that know input elements alone, as jQuery's serialize() does, by an
// input within the element. It is put back where the page takes it away.
export function mirror(element) {
  const { form, name, value, disabled } = element, wanted = window.jQuery && form && name && value && !gets(element);
  for (const old of element.querySelectorAll(':scope > [data-mirror]')) if (old !== mirrors.get(element)) old.remove(); // of a copied page
  if (wanted && !mirrors.has(element)) {
    mirrors.set(element, h('input', { type: 'hidden', 'data-mirror': true }));
    new MutationObserver(() => mirror(element)).observe(element, { childList: true });
  }
  const input = mirrors.get(element);
  if (!wanted) return input?.remove();
  Object.assign(input, { name, value, disabled });
  if (element.hasAttribute('form')) input.setAttribute('form', form.id);
  else input.removeAttribute('form');
  return input.parentNode === element || element.append(input);
}

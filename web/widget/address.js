import { attempt } from '../static/browser.js';
import { h } from './dom.js';

// This module gives the proof of an element to its form. A form with method GET gets no proof, since the
// page's address would show it.

const pressed = new WeakMap(); // by form: the button that submits it
const warned = new WeakSet();
let clearing; // the form whose reset button was pressed, until the next task

addEventListener('click', (event) => {
  const button = event.composedPath()[0].closest?.('button, input');
  if (button?.type !== 'reset') return;
  clearing = button.form;
  setTimeout(() => { clearing = undefined; });
}, true);

// cleared returns whether a form is being reset by a press of its button, and not by a script.
export const cleared = (form) => form === clearing;

// gets returns whether the element's form uses GET, and warns the developer once. A form of React
// whose action is a script does not.
export function gets(element) {
  const { form } = element, of = (name) => pressed.get(form)?.getAttribute(`form${name}`) ?? form.getAttribute(name);
  if (!form || /^(post|dialog)$/i.test(of('method')) || /^javascript:/i.test(of('action'))) return false;
  if (!warned.has(element)) console.warn('<send-code>: this form gets no proof, which its address would show; give it method="post"');
  warned.add(element);
  return true;
}

// guard handles a form's events submit and formdata. The button that was pressed is remembered only
// until the next task. The element itself reports that its proof is missing if a library has disabled
// the form's own validation and knows only input elements, and if the proof has ended since that
// validation. A script may read the form without a submit event, so a proof that has ended is taken
// out of its data, too.
export function guard(element, event, flow) {
  const { target, submitter, formData } = event, { form, name } = element;
  if (target !== form) return;
  const old = flow?.core.proof(), ended = flow?.lapse(), { value } = element;
  if (formData) {
    if (ended) {
      const others = formData.getAll(name).filter((each) => each !== old);
      formData.delete(name);
      for (const each of others) formData.append(name, each);
    }
    const all = formData.getAll(name), twice = all.indexOf(value) !== all.lastIndexOf(value) && mirrors.has(element);
    if (gets(element) || twice) formData.delete(name);
    if (!gets(element) && twice) for (const each of new Set(all)) formData.append(name, each);
    return;
  }
  pressed.set(target, submitter);
  setTimeout(() => pressed.delete(target));
  if (submitter?.formNoValidate) return;
  const data = form.noValidate ? attempt(() => jQuery(form).data()) : { validator: ended };
  if (!data?.validator && !data?.Parsley || element.checkValidity()) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  element.reportValidity();
}

const mirrors = new WeakMap(); // by element: its input

// mirror gives the proof to libraries that know only input elements, such as jQuery's serialize() and
// Unpoly, by an input within the element. If the page removes the input, mirror adds it again.
export function mirror(element) {
  const { form, name, value, disabled } = element, wanted = (window.jQuery || window.up) && form && name && value && !gets(element);
  for (const old of element.querySelectorAll(':scope > [data-mirror]')) if (old !== mirrors.get(element)) old.remove(); // of a copied page
  if (wanted && !mirrors.has(element)) {
    mirrors.set(element, h('input', { type: 'hidden', 'data-mirror': true }));
    new MutationObserver(() => mirror(element)).observe(element, { childList: true });
  }
  const input = mirrors.get(element);
  if (!wanted) return input?.remove();
  Object.assign(input, { name, value, disabled });
  if (element.hasAttribute('form')) input.setAttribute('form', element.getAttribute('form')); // form.id may be an input
  else input.removeAttribute('form');
  return input.parentNode === element || element.append(input);
}

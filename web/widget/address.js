// An element gives no proof to a form that is a GET, which would put it into the page's address.

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
// task.
export function guard(element, { target, submitter, formData }) {
  if (target !== element.form) return;
  if (formData) return void (gets(element) && formData.delete(element.name));
  pressed.set(target, submitter);
  setTimeout(() => pressed.delete(target));
}

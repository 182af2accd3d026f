// Elements made by hand: nothing is parsed, so a site's policy for inline styles and Trusted Types
// have nothing to forbid.

const drawn = new Set(['svg', 'rect']);

// h makes an element. Attributes that are false, null or undefined are left out, true is an empty
// one; children that are false, null or undefined are left out too, lists of them are taken one by
// one.
export function h(name, attributes, ...children) {
  const e = drawn.has(name) ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value !== false && value !== null && value !== undefined) e.setAttribute(key, value === true ? '' : value);
  }
  e.append(...children.flat(Infinity).filter((c) => c !== false && c !== null && c !== undefined));
  return e;
}

// emphasised is a pattern with its values in bold, as nodes. No line breaks at a value's hyphens:
// it may be an address.
export function emphasised(pattern, values) {
  return pattern.split(/(\{\w+\})/).map((part) => {
    const name = part.slice(1, -1);
    return part.startsWith('{') && name in values ? h('strong', { dir: 'auto' }, joined(values[name])) : part;
  });
}

const joined = (text) => text.split(/(-+.?)/u).map((part) => part.startsWith('-') ? h('span', { class: 'joined' }, part) : part);

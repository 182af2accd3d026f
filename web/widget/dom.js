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

// emphasised is a pattern with its values in bold, as nodes. An address is on one line, unless it is
// longer; the sign behind it stays beside its end.
export function emphasised(pattern, values) {
  return pattern.split(/(\{\w+\}\p{P}?)/u).map((part) => {
    const [, name, sign] = /^\{(\w+)\}(.?)$/.exec(part) ?? [], kind = name === 'subject' ? null : 'whole';
    return name in values ? h('span', { class: kind }, h('strong', { dir: 'auto' }, pieces(values[name])), sign) : part;
  });
}

// pieces is a text with the places where a line may break within an address: before its @ and
// behind its dots, not at its hyphens.
export const pieces = (text) => text.split(/(?=@)|(?<=\.)(?=\S)/).map((segment, i) => [i > 0 && h('wbr'),
  segment.split(/(-+.?)/u).map((part) => part.startsWith('-') ? h('span', { class: 'joined' }, part) : part)]);

// Functions that make elements without a parser, so that a site's policy for inline styles and
// Trusted Types has nothing to forbid.

// h makes an element. An attribute that is false, null or undefined is left out; true makes an
// empty attribute. A child that is false, null or undefined is left out; of a list, each element is
// a child.
export function h(name, attributes, ...children) {
  const e = /^(svg|rect)$/.test(name) ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
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

// pieces returns a text with the places at which a line may break within an address: before its @
// and after its dots, not at its hyphens.
export const pieces = (text) => text.split(/(?=@)|(?<=\.)(?=\S)/).map((segment, i) => [i > 0 && h('wbr'),
  segment.split(/(-+.?)/u).map((part) => part.startsWith('-') ? h('span', { class: 'joined' }, part) : part)]);

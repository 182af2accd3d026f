// Phone numbers while a person types them. The script groups digits as the country writes them. If
// a number has a country code, the script selects that country in the list. The server decides
// which number was typed, in whatever form, even without this script.

// plain replaces the digits that phones offer by ASCII digits: full-width, Arabic and Persian
// digits, whose last four bits are their value.
const plain = (text) => text.replace('\uff0b', '+').replace(/[\uff10-\uff19\u0660-\u0669\u06f0-\u06f9]/g, (d) => d.charCodeAt(0) & 15);

const nothing = { countries: {}, codes: {} }; // replaces the module if that cannot be loaded

// attendPhones handles the field #phone and the choice #country in a root, also on later cards.
// plans is the address of the module with the countries' formats of numbers.
export function attendPhones(root, plans) {
  let loaded; // the module is large, so it is loaded only when such a field gets the focus
  const load = () => loaded ??= import(plans).catch(() => { loaded = undefined; return nothing; });
  const find = (id) => root.getElementById(id);
  root.addEventListener('focusin', ({ target }) => { if (target.id === 'phone' || target.id === 'country') load(); });
  root.addEventListener('change', async ({ target }) => {
    const { id, value } = target;
    if (id === 'country') hint(find('phone-hint'), (await load()).countries[value]);
  });
  root.addEventListener('input',
      async ({ target, isComposing, inputType, data }) => { // read before the first await: after it, target is the host of the shadow tree
    if (target.id !== 'phone' || isComposing) return;
    const { countries, codes } = await load();
    typed(target, { inputType, data }, find('country'), countries, codes);
  });
}

function hint(element, country) {
  if (country?.[2] && element?.dataset.text) element.textContent = element.dataset.text.replace('{example}', country[2]);
}

function typed(field, { inputType, data }, choice, countries, codes) {
  const text = plain(field.value);
  if (/[^\d\s+()./-]/.test(text)) return; // not a number: the text stays as it is
  const digits = text.replace(/\D/g, ''), plus = /^\s*\(?\+/.test(text), abroad = plus || digits.startsWith('00');
  const number = plus ? digits : digits.slice(2), code = abroad && [1, 2, 3].map((n) => number.slice(0, n)).find((c) => c in codes);
  if (code) choose(choice, code, codes[code][0], countries);
  const adding = inputType?.startsWith('insert') && (!data || /[\p{Nd}]$/u.test(data));
  if (!adding || field.selectionStart !== field.value.length) return; // the person corrects the number, and the cursor would jump
  let written = '';
  if (code) written = `${plus ? '+' : '00'}${code} ${grouped(number.slice(code.length), codes[code][1], 3)}`;
  else if (!abroad && countries[choice?.value]) {
    const [own, trunk] = countries[choice.value], dialled = trunk && digits.startsWith(trunk);
    written = grouped(digits, codes[own][1], dialled ? 1 : 2, dialled ? trunk.length : 0);
  }
  if (written.trim() && written.trim() !== field.value) field.value = written.trim();
}

// choose selects the country of a number's calling code, if the list has that country. If the
// selected country has the same calling code, it stays selected: the server distinguishes countries
// that share a code.
function choose(choice, code, main, countries) {
  const options = [...choice?.options ?? []], of = (o) => countries[o.value]?.[0] === code;
  if (!options.length || of(choice.selectedOptions[0])) return;
  const found = options.find((o) => o.value === main) ?? options.find(of);
  if (!found) return;
  choice.value = found.value;
  choice.dispatchEvent(new Event('change', { bubbles: true }));
}

// grouped writes digits in the first grouping that they fit. which is the index of the grouping's
// template, trunk the length of the trunk prefix in digits.
function grouped(digits, groupings, which, trunk = 0) {
  if (digits.length < 3 + trunk) return digits;
  const fits = groupings.find((g) => g[which]?.split('#').length > digits.length && new RegExp(`^(?:${g[0]})`).test(digits.slice(trunk)));
  let n = 0, out = '';
  for (const c of fits?.[which] ?? '') {
    if (n === digits.length) break;
    out += c === '#' ? digits[n++] : c;
  }
  return out || digits;
}

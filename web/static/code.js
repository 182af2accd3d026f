// codeIn is the one code of a length in a text that holds other things too, as internal/code has it: of the runs of digits, or of
// the letters of codes, the one that is as long; or of those runs that a space or a dash parts. Empty: there is none, or several,
// or the text is nothing but a code.
export function codeIn(text, length, letters) {
  if (!length) return '';
  const plain = text.normalize('NFKC').replace(/\p{Cf}/gu, ''), own = letters ? /^[bcdfghj-np-tv-xz]+$/i : /^\p{Nd}+$/u;
  if (own.test(plain.replace(/[\s\p{Pd}]/gu, ''))) return '';
  const words = [...plain.matchAll(letters ? /[a-z0-9]+/gi : /\p{Nd}+/gu)].filter(([run]) => own.test(run));
  const joined = [];
  for (const [i, word] of words.entries()) {
    const before = words[i - 1], between = before && plain.slice(before.index + before[0].length, word.index);
    if (before && /^[\s\p{Pd}]$/u.test(between)) joined.push(joined.pop() + word[0]);
    else joined.push(word[0]);
  }
  const fit = (runs) => runs.filter((run) => [...run].length === length);
  const whole = fit(words.map(([run]) => run)), found = whole.length ? whole : fit(joined);
  return found.length === 1 ? found[0] : '';
}

// The widget's words. This module has one language, and only the words of the first card; a module
// with further words passes them to learn. SENDCODE is what the service puts before each module:
// its language, words and addresses.

const known = new Map(); // by language

export const addresses = SENDCODE;

// learn stores words: those for mails, and those that differ for text messages.
export function learn({ lang, mails, phones }) {
  const { mails: m, phones: p } = known.get(lang) ?? {};
  known.set(lang, { mails: { ...m, ...mails }, phones: { ...p, ...phones } });
}

learn(SENDCODE);

// spoken returns the language of the service for a locale, as the service chooses it: the same
// language, or one with the same base; undefined: none.
export function spoken(locale) {
  const all = Object.keys(SENDCODE.languages), base = (tag) => tag.split(/[-_]/)[0].toLowerCase();
  return all.find((tag) => tag.toLowerCase() === locale.toLowerCase()) ?? all.find((tag) => base(tag) === base(locale));
}

// wordsOf returns the words of a language by channel; undefined: they have not been learned.
export function wordsOf(lang) {
  const { mails, phones } = known.get(lang) ?? {};
  return mails && { email: mails, sms: { ...mails, ...phones } };
}

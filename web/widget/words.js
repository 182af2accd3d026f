// The widget's words. It comes with one language, and with those that the first card needs; a
// module that has more of them gives them to learn. SENDCODE is what the service puts before each
// module: its language, words and addresses.

const known = new Map(); // by language

export const addresses = SENDCODE;

// learn takes words in: of mails, and what is said otherwise of text messages.
export function learn({ lang, mails, phones }) {
  const { mails: m, phones: p } = known.get(lang) ?? {};
  known.set(lang, { mails: { ...m, ...mails }, phones: { ...p, ...phones } });
}

learn(SENDCODE);

// spoken is the language of ours for a locale, as the service picks it: its own, or one with the
// same base; undefined: none.
export function spoken(locale) {
  const all = Object.keys(SENDCODE.languages), base = (tag) => tag.split(/[-_]/)[0].toLowerCase();
  return all.find((tag) => tag.toLowerCase() === locale.toLowerCase()) ?? all.find((tag) => base(tag) === base(locale));
}

// wordsOf are a language's by channel; undefined: they have not been learned.
export function wordsOf(lang) {
  const { mails, phones } = known.get(lang) ?? {};
  return mails && { email: mails, sms: { ...mails, ...phones } };
}

// Helpers for calls that may be missing, throw or never answer: in old browsers, in private
// windows, because of policies and extensions.

export const patience = 15_000; // ms, the longest wait for an answer

// attempt returns the result of act. If act throws, it returns otherwise.
export function attempt(act, otherwise) {
  try {
    return act();
  } catch {
    return otherwise;
  }
}

// within returns the promise of act. The promise is rejected after patience, or when mine is
// aborted, even if act ignores its signal.
export function within(act, mine = new AbortController()) {
  const { signal } = mine, late = setTimeout(() => mine.abort(new DOMException('', 'TimeoutError')), patience);
  const ended = new Promise((_, no) => { signal.addEventListener('abort', () => no(signal.reason)); });
  return Promise.race([act(signal), ended]).finally(() => clearTimeout(late));
}

// claimsOf returns the claims of a proof, which is a JWT (RFC 7519, section 3); undefined: the text
// is no proof.
export const claimsOf = (proof) => attempt(() => JSON.parse(atob(proof.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'))));

export const offline = () => navigator.onLine === false;

// ours returns whether a script may move the focus into an element: the focus is in it, or nowhere,
// as after a focused button was replaced. Elsewhere in the page, or in a page around its frame, a
// person may be typing.
export function ours(element) {
  const at = element.getRootNode().activeElement ?? document.activeElement;
  return element.contains(at) || (!at || at === document.body) && (window === top || document.hasFocus());
}

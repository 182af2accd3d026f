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

// away returns whether the focus may be in the page around this document's frame. The document
// itself does not know: its activeElement stays.
export const away = () => window !== top && !document.hasFocus();

// ours returns whether a script may move the focus into an element: the focus is in its shadow tree
// or its human check, or nowhere, as after a focused button was replaced. Elsewhere in the page, in
// what the page has put into the element's slots, or in a page around the frame, a person may be
// typing.
export function ours(element) {
  const at = element.getRootNode().activeElement ?? document.activeElement;
  return !away() && (!at || [element, document.body].includes(at) || element.contains(at) && at.closest('[slot]').slot === 'human');
}

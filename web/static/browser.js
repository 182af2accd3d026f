// For calls that may be missing, throw or never answer: in old browsers, in private windows, by
// policies and extensions.

export const patience = 15_000; // ms, the longest time that an answer is awaited

// attempt returns what act returns, or otherwise if act throws.
export function attempt(act, otherwise) {
  try {
    return act();
  } catch {
    return otherwise;
  }
}

// within returns act's promise, which is rejected after patience, or once mine is aborted, even if
// act ignores its signal.
export function within(act, mine = new AbortController()) {
  const { signal } = mine, late = setTimeout(() => mine.abort(new DOMException('', 'TimeoutError')), patience);
  const ended = new Promise((_, no) => { signal.addEventListener('abort', () => no(signal.reason)); });
  return Promise.race([act(signal), ended]).finally(() => clearTimeout(late));
}

// claimsOf returns what a proof, a JWT, says (RFC 7519, section 3); undefined: it is none.
export const claimsOf = (proof) => attempt(() => JSON.parse(atob(proof.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'))));

export const offline = () => navigator.onLine === false;

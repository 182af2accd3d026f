// What a browser may lack, refuse or never answer: older ones, private windows, policies and extensions.

export const patience = 15_000; // ms

// attempt is what act gives, or else what there is otherwise.
export function attempt(act, otherwise) {
  try {
    return act();
  } catch {
    return otherwise;
  }
}

// within ends what act began when our patience does, or mine before that, also if act goes on regardless of its signal.
export function within(act, mine = new AbortController()) {
  const { signal } = mine, late = setTimeout(() => mine.abort(new DOMException('', 'TimeoutError')), patience);
  const ended = new Promise((_, no) => { signal.addEventListener('abort', () => no(signal.reason)); });
  return Promise.race([act(signal), ended]).finally(() => clearTimeout(late));
}

export const offline = () => navigator.onLine === false;

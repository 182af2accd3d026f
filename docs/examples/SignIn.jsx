import { useState } from 'react';

export function SignIn({ purpose, onProof }) {
  const [wrong, setWrong] = useState(0);
  return <form onSubmit={(event) => { event.preventDefault(); onProof(new FormData(event.target).get('proof')); }}>
    <send-code public-key="pk_your_public_key" purpose={purpose} name="proof" required onwrong={() => setWrong(wrong + 1)} />
    <button>Sign in</button> {wrong > 1 && <a href="/help">Can't find the code?</a>}
  </form>;
}

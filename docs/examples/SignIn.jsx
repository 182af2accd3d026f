import { useState } from 'react';

export function SignIn({ purpose, onProof }) {
  const [wrong, setWrong] = useState(0);
  const submit = async (event) => {
    const { proof } = event.target.elements;
    event.preventDefault();
    if (await onProof(proof.value) === false) proof.value = ''; // your server refused it: the card begins anew
  };
  return <form onSubmit={submit}>
    <send-code public-key="pk_your_public_key" purpose={purpose} name="proof" required onwrong={() => setWrong(wrong + 1)} />
    <button>Sign in</button> {wrong > 1 && <a href="/help">Can't find the code?</a>}
  </form>;
}

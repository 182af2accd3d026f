'use client'; // for Next

import { useEffect, useRef, useState } from 'react';

export function SignIn({ purpose, onProof }) {
  const [wrong, setWrong] = useState(0), card = useRef(null);
  useEffect(() => { // where a server rendered the page, React's own onwrong hears nothing
    const { current } = card, count = () => setWrong((n) => n + 1);
    current.addEventListener('wrong', count);
    return () => current.removeEventListener('wrong', count);
  }, []);
  const submit = async (event) => {
    const { proof } = event.target.elements;
    event.preventDefault();
    if (await onProof(proof.value) === false) proof.value = ''; // your server refused it: the card begins anew
  };
  return <form method="post" action="/sign-in" onSubmit={submit}>
    <send-code ref={card} public-key="pk_your_public_key" purpose={purpose} name="proof" tabIndex={0} required />
    <button>Sign in</button> {wrong > 1 && <a href="/help">Can't find the code?</a>}
  </form>;
}

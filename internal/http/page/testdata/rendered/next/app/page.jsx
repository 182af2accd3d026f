'use client';

import { useEffect, useState } from 'react';
import { SignIn } from './SignIn.jsx';

export default function Page() {
  const [purpose, setPurpose] = useState('default');
  useEffect(() => { window.change = setPurpose; }, []); // once it is hydrated
  return <SignIn purpose={purpose} onProof={async (proof) => { window.proof = proof; return window.accepts; }} />;
}

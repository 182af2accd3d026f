import { StrictMode, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { SignIn } from './SignIn.jsx';

function Shop() {
  const [purpose, setPurpose] = useState('default');
  window.change = setPurpose;
  return <SignIn purpose={purpose} onProof={async (proof) => { window.proof = proof; return window.accepts; }} />;
}

createRoot(document.getElementById('app')).render(<StrictMode><Shop /></StrictMode>);

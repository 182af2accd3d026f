import { StrictMode, useState } from 'react';
import { createRoot, hydrateRoot } from 'react-dom/client';
import { renderToString } from 'react-dom/server';
import { SignIn } from './SignIn.jsx';

function Shop() {
  const [purpose, setPurpose] = useState('default');
  globalThis.change = setPurpose;
  return <SignIn purpose={purpose} onProof={async (proof) => { window.proof = proof; return window.accepts; }} />;
}

const root = globalThis.document?.getElementById('app'), shop = <StrictMode><Shop /></StrictMode>;
if (!root) {
  console.log(renderToString(shop));
  process.exit();
} else if (root.hasChildNodes()) hydrateRoot(root, shop);
else createRoot(root).render(shop);

import * as Dialog from '@radix-ui/react-dialog';
import { createFocusTrap } from 'focus-trap';
import MicroModal from 'micromodal';
import { useState } from 'react';
import { createRoot } from 'react-dom/client';

function Radix() {
  return <Dialog.Root open><Dialog.Portal><Dialog.Content>
    <Dialog.Title>Join</Dialog.Title>
    <form method="post"><send-code public-key="pk_your_public_key" name="proof" /><button>Sign in</button></form>
    <Dialog.Close>Close</Dialog.Close>
  </Dialog.Content></Dialog.Portal></Dialog.Root>;
}

function Plain({ id, children }) {
  return <div id={id} role="dialog" aria-label="Join"><send-code public-key="pk_your_public_key" />{children}</div>;
}

function Dialogs() {
  const [which, setWhich] = useState('radix');
  window.show = setWhich;
  return { radix: <Radix />, trap: <Plain id="trap" />, micro: <Plain id="micro"><button>Close</button></Plain> }[which];
}

createRoot(document.getElementById('app')).render(<Dialogs />);
window.trap = () => createFocusTrap('#trap').activate();
window.micro = () => MicroModal.show('micro');

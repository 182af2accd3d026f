import * as Headless from '@headlessui/react';
import * as Radix from '@radix-ui/react-dialog';
import { FocusScope } from '@react-aria/focus';
import { createFocusTrap } from 'focus-trap';
import MicroModal from 'micromodal';
import { useState } from 'react';
import { createRoot } from 'react-dom/client';
import Modal from 'react-modal';

const form = <form method="post"><send-code public-key="pk_your_public_key" name="proof" tabIndex={0} /><button>Sign in</button></form>;

function InRadix() {
  return <Radix.Root open><Radix.Portal><Radix.Content><Radix.Title>Join</Radix.Title>{form}<Radix.Close>Close</Radix.Close></Radix.Content></Radix.Portal></Radix.Root>;
}

function InHeadless() {
  return <Headless.Dialog open onClose={() => {}}><Headless.DialogPanel><Headless.DialogTitle>Join</Headless.DialogTitle>{form}</Headless.DialogPanel></Headless.Dialog>;
}

function InAria() {
  return <FocusScope contain restoreFocus autoFocus><div role="dialog" aria-label="Join" tabIndex={-1}>{form}</div></FocusScope>;
}

function InModal() {
  return <Modal isOpen ariaHideApp={false} contentLabel="Join">{form}</Modal>;
}

function Plain({ id, children }) {
  return <div id={id} role="dialog" aria-label="Join"><send-code public-key="pk_your_public_key" />{children}</div>;
}

function Dialogs() {
  const [which, setWhich] = useState('radix');
  window.show = setWhich;
  return { radix: <InRadix />, headless: <InHeadless />, aria: <InAria />, modal: <InModal />, trap: <Plain id="trap" />,
    micro: <Plain id="micro"><button>Close</button></Plain> }[which];
}

createRoot(document.getElementById('app')).render(<Dialogs />);
window.trap = () => createFocusTrap('#trap').activate();
window.micro = () => MicroModal.show('micro');

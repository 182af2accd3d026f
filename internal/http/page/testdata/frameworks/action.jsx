import { useActionState } from 'react';
import { createRoot } from 'react-dom/client';

function Join() {
  const [state, act] = useActionState(async (_, data) => {
    window.proof = data.get('proof');
    return { error: 'This name is taken.' };
  }, {});
  return <form action={act}>
    <send-code public-key="pk_your_public_key" name="proof" required /><input name="name" defaultValue="ana" />
    <button>Join</button> <output>{state.error}</output>
  </form>;
}

createRoot(document.getElementById('app')).render(<Join />);

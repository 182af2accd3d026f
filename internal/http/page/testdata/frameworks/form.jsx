import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { useForm } from 'react-hook-form';

function SignIn() {
  const { register, handleSubmit, reset, setValue, watch } = useForm({ defaultValues: { proof: '' } });
  window.form = { reset, setValue };
  return <form method="post" onSubmit={handleSubmit(({ proof }) => { window.proof = proof; })}>
    <send-code public-key="pk_your_public_key" value="" {...register('proof', { required: true })} />
    <button>Sign in</button> <output>{watch('proof')}</output>
  </form>;
}

createRoot(document.getElementById('app')).render(<StrictMode><SignIn /></StrictMode>);

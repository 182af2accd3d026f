import type { GlobalComponents } from 'vue';
import { Client, waiting } from './client';
import type { SendCode } from './widget';

const element: SendCode = document.querySelector('send-code')!;
element.publicKey = 'pk_';
element.value = '';
const count = (event: CustomEvent<{ attempts_remaining: number }>) => { const left: number = event.detail.attempts_remaining; };
element.addEventListener('wrong', count);
element.removeEventListener('wrong', count);
document.addEventListener('approved', ({ detail }) => { const proof: string = detail.proof; });
window.addEventListener('approved', ({ detail }) => { const proof: string = detail.proof; });
document.querySelector('form')!.addEventListener('approved', ({ detail }) => { const proof: string = detail.proof; });

export const react = <send-code public-key="pk_" required value="" className="card" />;
export const properties = <send-code publicKey="pk_" form="sign-in" name="proof" />;
// @ts-expect-error: where a server rendered the page, React's own hears nothing
export const unheard = <send-code onapproved={() => {}} />;
// @ts-expect-error: it is a text
export const mistaken = <send-code purpose={3} />;

type Vue = InstanceType<GlobalComponents['send-code']>['$props'];
export const vue: Vue = { publicKey: 'pk_', onApproved: (event) => { const proof: string = event.detail.proof; } };

export async function asked(client: Client, to = 'ana@example.con'): Promise<number> {
  const sent = await client.send({ channel: 'email', to, sure: '' });
  // @ts-expect-error: it may be a refusal, which has no id
  const early: string = sent.body.id;
  if (sent.ok) return waiting(sent) + sent.body.id.length + Date.parse(sent.body.send.finished_at ?? '') + (sent.body.code_format?.length ?? 0);
  if (sent.body?.reason === 'domain_typo') return asked(client, sent.body.suggestion);
  if (sent.body) return waiting(sent) + (sent.body.blocked_by ?? sent.body.detail ?? '').length;
  console.error(sent.error, sent.barred);
  return 0;
}

export async function entered(client: Client, id: string): Promise<string> {
  const checked = await client.check(id, '293848');
  // @ts-expect-error: without a look at valid there may be none
  const early: string = checked.ok ? checked.body.proof : '';
  return checked.ok && checked.body.valid ? checked.body.proof : early;
}

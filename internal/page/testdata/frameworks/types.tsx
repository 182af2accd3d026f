import type { GlobalComponents } from 'vue';
import type { SendCode } from './widget';

const element: SendCode = document.querySelector('send-code')!;
element.publicKey = 'pk_';
element.value = '';
element.addEventListener('wrong', (event) => { const left: number = event.detail.attempts_remaining; });

export const react = <send-code public-key="pk_" required value="" className="card" onapproved={(event) => { const proof: string | undefined = event.detail.proof; }} />;
// @ts-expect-error: it is a text
export const mistaken = <send-code purpose={3} />;

type Vue = InstanceType<GlobalComponents['send-code']>['$props'];
export const vue: Vue = { 'public-key': 'pk_', onApproved: (event) => { const proof: string | undefined = event.detail.proof; } };

// Types of /widget.js: <send-code>. docs/widget.md describes its attributes, events, slots and parts.

type Channel = 'email' | 'sms';

export interface SendCodeEvents {
  sent: { id: string; number: number; to: string; channel: Channel };
  changed: { id: string; to: string; channel: Channel };
  wrong: { id: string; attempts_remaining: number };
  expired: { id: string; status: 'expired' | 'max_attempts_reached' | 'canceled' | 'approved' }; // approved: the proof has ended
  approved: { id: string; proof: string; test: boolean };
  refused: { what: 'send'; blocked_by: string; retry_after: number } | { what: 'check'; retry_after: number };
  humancheck: { by: string; site_key?: string; respond: (token?: string) => void }; // after preventDefault() the page answers
  failed: { reason: 'undelivered'; id: string; number: number } | { reason: 'unavailable' | 'too-many-requests' | 'network' | 'misplaced' };
}

export interface SendCodeAttributes {
  'public-key'?: string; publicKey?: string; form?: string; api?: string; purpose?: string; channels?: string; country?: string; to?: string; locale?: string; reference?: string;
  sender?: string; subject?: string;
  name?: string; required?: boolean; disabled?: boolean; value?: string;
}

type Heard = { [E in keyof SendCodeEvents]: CustomEvent<SendCodeEvents[E]> };
type Listeners = { [E in keyof SendCodeEvents as `on${E}`]?: (event: CustomEvent<SendCodeEvents[E]>) => void };

export declare class SendCode extends HTMLElement {
  get form(): HTMLFormElement | null;
  set form(id: string); // the attribute
  publicKey: string;
  api: string;
  purpose: string;
  channels: string;
  country: string;
  to: string;
  locale: string;
  reference: string;
  sender: string;
  subject: string;
  name: string;
  required: boolean;
  disabled: boolean;
  readonly labels: NodeList;
  readonly type: string;
  value: string; // the proof, or empty; setting '' takes a proof back, and setting a proof gives an element that is drawn again what it had
  readonly validity: ValidityState;
  readonly validationMessage: string;
  readonly willValidate: boolean;
  checkValidity(): boolean;
  reportValidity(): boolean;
  setCustomValidity(text: string): void;
  reset(): void;
  addEventListener<E extends keyof SendCodeEvents>(type: E, listener: (event: CustomEvent<SendCodeEvents[E]>) => void, options?: boolean | AddEventListenerOptions): void;
  addEventListener(type: string, listener: EventListenerOrEventListenerObject, options?: boolean | AddEventListenerOptions): void;
  removeEventListener<E extends keyof SendCodeEvents>(type: E, listener: (event: CustomEvent<SendCodeEvents[E]>) => void, options?: boolean | EventListenerOptions): void;
  removeEventListener(type: string, listener: EventListenerOrEventListenerObject, options?: boolean | EventListenerOptions): void;
}

declare global {
  interface HTMLElementTagNameMap { 'send-code': SendCode }
  interface GlobalEventHandlersEventMap extends Heard {} // of the window, the document and each element
}

// @ts-ignore: for projects that have React
declare module 'react' {
  namespace JSX {
    // @ts-ignore: the same
    interface IntrinsicElements { 'send-code': SendCodeAttributes & React.HTMLAttributes<SendCode> & React.RefAttributes<SendCode> }
  }
}

// @ts-ignore: for projects that have Vue
declare module 'vue' {
  interface GlobalComponents { 'send-code': new () => { $props: SendCodeAttributes & { [E in keyof Listeners as `on${Capitalize<E extends `on${infer N}` ? N : never>}`]: Listeners[E] } } }
}

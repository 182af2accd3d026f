// Types of /client.js: what a browser and the service say to each other.

export interface Quota {
  allowed: boolean; retry_after: number; retry_at?: string; blocked_by?: string;
  human_check?: true; // the next send would be asked for one
  rules: { name: string; scope: string; limit: number; window: number; per?: string; days?: number; remaining: number; reset_after: number; retry_after: number }[];
}

export interface Verification {
  id: string; status: 'pending' | 'approved' | 'canceled' | 'expired' | 'max_attempts_reached';
  channel: Channel; to: string; purpose: string; purpose_title?: string; reference?: string; test?: boolean;
  created_at: string; expires_at: string; expires_in: number; attempts_remaining: number;
  code_format?: { length: number; alphabet: 'digits' | 'unambiguous' };
  send: {
    id: string; number: number; status: 'queued' | 'sending' | 'sent' | 'failed' | 'unknown' | 'delivered' | 'undelivered'; final: boolean; counts: boolean;
    finished_at?: string; // absent while it goes on
    support?: string; // a reference to show a person: support finds the send by it
    instead?: 'email'; // offer this channel
  };
  quota: Quota;
}

export type Channel = 'email' | 'sms';

export type Answer<Body> = Success<Body> | Refusal | Silence;

export interface Success<Body> { ok: true; status: number; body: Body; moment: Moment; retry: number }

// Refusal is an answer with a problem of the service.
export interface Refusal {
  ok: false; status: number; body: Partial<Problem>;
  moment: Moment; // when it came
  retry: number; // seconds of Retry-After, else 0
}

// Silence: no answer of the service came; a service worker, a firewall or a proxy may have answered in its place. barred: the service is there,
// and this page may not read its answers. retry is as in a refusal, also if another program answered.
export interface Silence { ok: false; status: 0; body?: undefined; error: unknown; barred: boolean; retry: number }

// Problem is the body of a refusal (RFC 9457). Compare the last word of type.
export interface Problem {
  type: string; title: string; status: number; detail: string; request_id: string;
  field: string; reason: string; suggestion: string; // with 422; suggestion: with the reason domain_typo, the address that was perhaps meant
  quota: Quota; blocked_by: string; retry_after: number; retry_after_ms: number; // with 429
  may_have_counted: boolean; slow?: 'email' | 'sms'; // with 503 of a send
  human_check: HumanCheck; // with 428, and with 422 of a token that is invalid
}

// HumanCheck is what is asked for: a vendor's token, or work:<base64 of ALTCHA's payload> of a solved challenge.
export interface HumanCheck {
  by: string; site_key?: string;
  work?: { algorithm: string; challenge: string; maxNumber: number; salt: string; signature: string };
}

export interface Ask {
  channel: Channel; to: string; purpose?: string; locale?: string; reference?: string; country?: string; known?: string[]; human_check?: string;
  sure?: string; // '' asks back about a doubtful recipient, 422 domain_typo or landline; then the domain or the number that the person has confirmed
}

// Checked has a proof if the code was right.
export type Checked = {
  id: string; status: Verification['status']; attempts_remaining?: number; test?: boolean;
  known?: string; // to keep for 90 days and to ask with, for a known browser: the newest five
} & ({ valid: true; proof: string } | { valid: false; proof?: undefined });

export declare class Moment {
  constructor(at?: number);
  elapsed(): number; // milliseconds since then
  certain(): number; // the milliseconds that have passed at least
  parted(): boolean; // the machine has slept since then or its clock was set, so that the service alone knows the wait: get() it again
}

export declare class Client {
  // throws without a key, and with a secret one. kept holds the key of a send from before its request until its answer
  constructor(options: { key: string; api?: string | URL; kept?: { get(): string; set(key: string): void; forget(): void } });
  send(what: Ask | { verification_id: string; locale?: string; reference?: string; known?: string[]; human_check?: string }): Promise<Answer<Verification>>;
  check(id: string, code: string): Promise<Answer<Checked>>; // a lost answer is asked for again, also when you call it again: that is no try
  get(id: string): Promise<Answer<Verification>>;
  channels(purpose?: string): Promise<{ channel: Channel; countries?: { country: string; dial_code: string; example?: string }[] }[] | undefined>;
  reachable(): Promise<boolean>;
}

// waiting is how many milliseconds are left until the next code may be asked for.
export declare function waiting(answer: Success<Verification> | Refusal): number;

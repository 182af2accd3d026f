// Types of /client.js: what a browser and the service say to each other.

export interface Quota {
  allowed: boolean; retry_after: number; retry_at?: string; blocked_by: string | null;
  rules: { name: string; scope: string; limit: number; window: number; per?: string; remaining: number; reset_after: number; retry_after: number }[];
}

export interface Verification {
  id: string; status: 'pending' | 'approved' | 'canceled' | 'expired' | 'max_attempts_reached';
  channel: Channel; to: string; purpose: string; purpose_title?: string; created_at: string; expires_at: string; expires_in: number; attempts_remaining: number;
  send: { id: string; number: number; status: 'queued' | 'sending' | 'sent' | 'failed' | 'unknown' | 'delivered' | 'undelivered'; reason?: string; counts: boolean };
  quota: Quota;
}

export type Channel = 'email' | 'sms';

export interface Answer<Body> {
  status: number; // 0: there was no answer
  body: Body; // of another status a problem (RFC 9457)
  moment: Moment; // when it came
  retry: number; // seconds of Retry-After, else 0
  error?: unknown; barred?: boolean; // with status 0: why; this page may not read the service's answers
}

export interface Ask { channel: Channel; to: string; purpose?: string; locale?: string; reference?: string; country?: string; known?: string[] }

export interface Checked {
  id: string; status: Verification['status']; valid: boolean; attempts_remaining?: number; proof?: string; test?: boolean;
  known?: string; // to keep for 90 days and to ask with, for a known browser: the newest five
}

export declare class Moment {
  constructor(at?: number);
  elapsed(): number; // milliseconds since then
  certain(): number; // how many have passed at least
  parted(): boolean; // the machine has slept since then or its clock was set, so that the service alone knows the wait: get() it again
}

export declare class Client {
  constructor(options: { key: string; api?: string | URL }); // throws without a key, and with a secret one
  send(what: Ask | { verification_id: string; locale?: string; known?: string[] }): Promise<Answer<Verification>>;
  check(id: string, code: string): Promise<Answer<Checked>>;
  get(id: string): Promise<Answer<Verification>>;
  channels(purpose?: string): Promise<{ channel: Channel; countries?: { country: string; dial_code: string; example?: string }[] }[] | undefined>;
  reachable(): Promise<boolean>;
}

// waiting is how many milliseconds are left until the next code may be asked for.
export declare function waiting(answer: Answer<Verification | { quota: Quota; retry_after_ms: number }>): number;

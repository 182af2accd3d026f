import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
const { CODES_URL: url, CODES_KEY: key, SHOP_URL: shop } = process.env;
const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, redeem = `${url}/v1/proofs/redeem`;
createServer(async (request, response) => {
  const { reference, state } = Object.fromEntries(new URLSearchParams(request.url.split('?')[1])), fresh = randomUUID();
  const begun = request.headers.cookie?.split('; ').includes(`state-${state}=1`); // in this browser; each tab has a state of its own
  const answer = begun && await fetch(redeem, { method: 'POST', headers, body: JSON.stringify({ reference }), signal: AbortSignal.timeout(10_000) }).catch(() => null);
  const proven = answer && await answer.json().catch(() => null), good = answer?.ok && proven?.approved_at;
  if (good && proven.channel === 'email' && proven.purpose === 'default') // anyone can change both in the page's address
    return response.end(`Welcome, ${proven.to}`); // make the account here
  const refused = answer?.status < 500 && `${proven?.type}`.includes('/problems/') && proven.request_id; // a firewall or a proxy may have answered instead
  if (reference && !good && !refused) return response.writeHead(begun ? 503 : 400).end(begun ? 'Please reload.' : 'This sign-up began in another browser. Please begin again.');
  const location = `${url}/?app=shop&return_url=${encodeURIComponent(`${shop}/signup?state=${fresh}`)}`;
  response.writeHead(303, { location, 'set-cookie': `state-${fresh}=1; Max-Age=3600; HttpOnly; SameSite=Lax` }).end();
}).listen(new URL(shop).port, '127.0.0.1');

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
const { CODES_URL: url, CODES_KEY: key, SHOP_URL: shop } = process.env;
const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, redeem = `${url}/v1/proofs/redeem`;
createServer(async (request, response) => {
  const { reference, state } = Object.fromEntries(new URLSearchParams(request.url.split('?')[1])), fresh = randomUUID();
  const begun = request.headers.cookie?.split('; ').includes(`state=${state}`); // in this browser
  const answer = begun && await fetch(redeem, { method: 'POST', headers, body: JSON.stringify({ reference }), signal: AbortSignal.timeout(10_000) }).catch(() => null);
  const proven = answer && await answer.json().catch(() => null); // anyone can change channel and purpose in the page's address
  if (proven?.channel === 'email' && proven.purpose === 'default') return response.end(`Welcome, ${proven.to}`); // make the account here
  if (begun && (!proven || answer.status >= 500)) return response.writeHead(503).end('Please reload.');
  const location = `${url}/?app=shop&return_url=${encodeURIComponent(`${shop}/signup?state=${fresh}`)}`;
  response.writeHead(303, { location, 'set-cookie': `state=${fresh}; HttpOnly; SameSite=Lax` }).end();
}).listen(new URL(shop).port, '127.0.0.1');

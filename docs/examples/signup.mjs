import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
const { CODES_URL: url, CODES_KEY: key, SHOP_URL: shop } = process.env;
const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, redeem = `${url}/v1/proofs/redeem`;
createServer(async (request, response) => {
  const { reference, state } = Object.fromEntries(new URL(request.url, shop).searchParams), fresh = randomUUID();
  const begun = request.headers.cookie?.split('; ').includes(`state=${state}`); // in this browser
  const answer = begun && await fetch(redeem, { method: 'POST', headers, body: JSON.stringify({ reference }) }).catch(() => null);
  const proven = answer?.ok && await answer.json(); // anyone can change channel and purpose in the page's address
  if (proven?.channel === 'email' && proven.purpose === 'default') return response.end(`Welcome, ${proven.to}`); // make the account here
  const location = `${url}/?app=shop&return_url=${encodeURIComponent(`${shop}/signup?state=${fresh}`)}`;
  response.writeHead(303, { location, 'set-cookie': `state=${fresh}; HttpOnly; SameSite=Lax` }).end();
}).listen(new URL(shop).port, '127.0.0.1');

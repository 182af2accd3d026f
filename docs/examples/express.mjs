import express from 'express';
import session from 'express-session';
import { ask, check, send } from './back.mjs';
const kept = session({ secret: process.env.SESSION_SECRET, resave: false, saveUninitialized: false, cookie: { sameSite: 'lax' } });
const app = express().use(express.urlencoded(), kept);
app.post('/code', async ({ body = {}, session, ip }, response) => { // behind a proxy set `trust proxy`, or ip is the proxy's
  const again = session.asked?.to === body.to ? session.asked?.id : undefined; // "send again": the same code
  const [status, { id, to, detail, retry_after, quota }] = await send(body.to, ip, again);
  if (status === 202) session.asked = { id, to: body.to };
  response.status(status).json({ to, detail, retry_after: retry_after ?? quota?.retry_after }); // all else is for the back end alone
});
app.post('/code/check', async ({ body = {}, session: { asked = {} }, ip }, response) => {
  const [status, { status: state, proof, attempts_remaining, detail }] = await check(asked.id, body.code, ip);
  asked.proof ??= proof; // it is redeemed again if the answer is lost, or another program's
  const [redeemed, proven] = asked.proof ? await ask('/v1/proofs/redeem', { proof: asked.proof }, `redeem-${asked.id}`) : [status, {}];
  if (proven.to) { delete asked.id; delete asked.proof; } // a proof that stays would let any code in
  if (proven.to) return response.type('text').send(`Welcome, ${proven.to}`); // log the proven address in here
  response.status(asked.proof && redeemed < 300 ? 503 : redeemed).json({ status: state, attempts_remaining, detail: proven.detail ?? detail });
}).listen(process.env.PORT);

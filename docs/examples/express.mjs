import express from 'express';
import session from 'express-session';
import { check, send } from './back.mjs';
const app = express().use(express.urlencoded(), session({ secret: process.env.SESSION_SECRET, resave: false, saveUninitialized: false }));
app.post('/code', async ({ body, session, ip }, response) => { // behind a proxy set `trust proxy`, or ip is the proxy's
  const again = session.asked?.to === body.to ? session.asked.id : undefined; // "send again": the same code
  const [status, answer] = await send(body.to, ip, again);
  if (status === 202) session.asked = { id: answer.id, to: body.to }; // the address stays here: a form can be changed
  response.status(status).json(answer);
});
app.post('/code/check', async ({ body, session, ip }, response) => {
  const [status, answer] = await check(session.asked?.id, body.code, ip);
  response.status(status).send(answer.valid ? `Welcome, ${session.asked.to}` : answer); // log the person in here
}).listen(process.env.PORT);

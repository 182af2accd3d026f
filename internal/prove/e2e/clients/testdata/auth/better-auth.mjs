import { createServer } from 'node:http';
import { betterAuth } from 'better-auth';
import { toNodeHandler } from 'better-auth/node';
import { emailOTP, phoneNumber, twoFactor } from 'better-auth/plugins';
import { auth } from './sample.mjs';
const { options } = auth, phones = phoneNumber({ sendOTP: () => {}, sendPasswordResetOTP: () => {} });
const all = [emailOTP({}), phones, twoFactor()].flatMap(({ endpoints }) => Object.values(endpoints).map(({ path }) => path));
const handle = toNodeHandler(betterAuth({ ...options, plugins: [...options.plugins, phones] }));
createServer((request, response) => {
  if (request.url !== '/ways') return handle(request, response);
  response.end(all.filter((path) => /send|request|forget/.test(path)).join(' '));
}).listen(process.env.PORT);

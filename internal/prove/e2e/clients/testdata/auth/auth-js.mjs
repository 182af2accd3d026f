import { createServer } from 'node:http';
import { Auth } from '@auth/core';
import { code, signIn } from './sample.mjs';
const users = [], tokens = [];
const adapter = { // in memory
  createUser: async (user) => (users.push(user), user),
  updateUser: async (user) => Object.assign(users.find(({ id }) => id === user.id), user),
  getUser: async (id) => users.find((user) => user.id === id) ?? null,
  getUserByEmail: async (email) => users.find((user) => user.email === email) ?? null,
  getUserByAccount: async () => null,
  linkAccount: async () => undefined,
  createVerificationToken: async (token) => (tokens.push(token), token),
  useVerificationToken: async ({ identifier, token }) => {
    const at = tokens.findIndex((t) => t.identifier === identifier && t.token === token);
    return at < 0 ? null : tokens.splice(at, 1)[0];
  },
};
const config = { adapter, providers: [code], callbacks: { signIn }, session: { strategy: 'jwt' }, basePath: '/api/auth', secret: process.env.SESSION_SECRET, trustHost: true };
createServer(async (request, response) => {
  const { method, headers, url } = request;
  const body = method === 'POST' ? request : undefined;
  const answer = await Auth(new Request(`http://${headers.host}${url}`, { method, headers, body, duplex: 'half' }), config);
  response.writeHead(answer.status, [...answer.headers].flat());
  response.end(await answer.text());
}).listen(process.env.PORT);

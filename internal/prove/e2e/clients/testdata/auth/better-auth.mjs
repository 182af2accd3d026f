import { createServer } from 'node:http';
import { toNodeHandler } from 'better-auth/node';
import { auth } from './sample.mjs';
createServer(toNodeHandler(auth)).listen(process.env.PORT);

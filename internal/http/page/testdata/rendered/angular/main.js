import { start } from './out/app.js';

start();

import { start } from './out/app.js';
import { provideServerRendering, renderApplication } from '@angular/platform-server';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const document = '<!doctype html><html lang="en"><head><script type="module" src="https://codes.example/widget.js"></script></head>' +
  '<body><app-root></app-root><script type="module" src="/main.js"></script></body></html>';
createServer(async (request, response) => {
  if (request.url === '/main.js') return response.setHeader('Content-Type', 'text/javascript').end(readFileSync('out/browser.js'));
  const page = await renderApplication((context) => start(context, provideServerRendering()), { document, url: '/' });
  response.setHeader('Content-Type', 'text/html').end(page);
}).listen(process.env.PORT, '127.0.0.1');

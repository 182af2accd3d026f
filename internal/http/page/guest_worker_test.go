package page_test

import (
	"testing"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
)

// worker is a page's service worker. After the message "page", it answers all requests to the
// service with its offline page. After "cache", it answers each GET with the first answer to this
// GET. After "none", it passes all requests on.
const worker = `
	let how = 'none';
	const seen = new Map();
	addEventListener('install', () => skipWaiting());
	addEventListener('activate', (event) => event.waitUntil(clients.claim()));
	addEventListener('message', ({ data, ports }) => { how = data; ports[0].postMessage(how); });
	addEventListener('fetch', (event) => {
		const { url, method } = event.request;
		if (!url.includes('/v1/') || how === 'none') return;
		if (how === 'page') return event.respondWith(new Response('<h1>You are offline</h1>', { headers: { 'Content-Type': 'text/html' } }));
		if (method !== 'GET') return;
		event.respondWith(seen.has(url) ? seen.get(url).clone() : fetch(event.request).then((answer) => { seen.set(url, answer.clone()); return answer; }));
	});`

// aServiceWorker tests answers of a service worker: the widget forgets nothing, and keeps each
// confirmation.
func aServiceWorker(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	s := siteOf(t, w, `<form method="post">`+tag(`name="proof" required`)+`</form>`, "")
	s.Script = `if (typeof document === 'undefined') {` + worker + `} else {` + tools + `}`
	g := &guest{&browsertest.Page{TB: t, Tab: tab, Root: "window.el?.shadowRoot"}, w}
	g.Go(s.URL)
	g.run(`await navigator.serviceWorker.register('/own.js')`)
	g.Until(`navigator.serviceWorker.controller`)
	answers := func(how string) {
		g.Helper()
		g.run(`await new Promise((go) => { const { port1, port2 } = new MessageChannel(); port1.onmessage = go;
			navigator.serviceWorker.controller.postMessage('` + how + `', [port2]); })`)
	}
	answers("page")
	g.asks(pagetest.Address)
	g.Shows("#offline", "That didn't work. Try again.")
	g.Until(`!el.shadowRoot.querySelector('.busy')`)
	answers("cache")
	g.run(`el.shadowRoot.querySelector('#send').click()`)
	g.card("code", "a•••@example.com")
	g.run(`asked.length = 0`, returnScript)
	g.Until(`asked.some((one) => one.startsWith('GET'))`)
	g.rest()
	answers("page")
	g.enters(pagetest.Code)
	g.Shows("#offline", "That didn't work. Try again.")
	g.Until(`!el.shadowRoot.querySelector('.busy')`)
	answers("cache")
	g.run(`el.shadowRoot.querySelector('#check').click()`)
	g.card("approved")
	g.run(`asked.length = 0`, returnScript)
	g.Until(`asked.some((one) => one.startsWith('GET'))`)
	g.rest()
	g.card("approved")
	g.is(`document.querySelector('form').checkValidity() && el.value !== '' && !heard.some(([name]) => name === 'expired')`)
	is(t, [2]int{w.Codes.Sends(), w.Codes.Checks()}, [2]int{1, 1})
	g.run(`(await navigator.serviceWorker.getRegistrations()).forEach((one) => one.unregister())`)
	g.wantNoScriptErrors()
}

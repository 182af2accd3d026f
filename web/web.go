// Package web holds the files that browsers load, embedded into the binary, and serves them
// compressed: a file is compressed once, a page while it is written.
//
// Packages page and console parse their templates from FS: page/ and mailbox/ belong to page,
// admin/ to the console, and both use shared/. The modules and style sheets of static/ and widget/
// import each other; bundled/ has them joined and minified, so that each needs one request. A test
// fails when bundled/ is stale, and go generate ./web makes it anew.
//
// The page and the widget share time.js (waits and clocks), countdown.js (counts waits down),
// cards.js (shows a card, and replaces it with the next), code.js (the field for the code),
// phone.js (groups numbers while they are typed), inquiry.js (requests to the server) and browser.js
// (what a browser may lack or refuse).
package web

import "embed"

//go:generate go test . -run TestBundled -update

// FS has the templates and the files that are served.
//
//go:embed */*.html admin/admin.css admin/console.js bundled static/icon.svg widget/*.d.ts
var FS embed.FS

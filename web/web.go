// Package web holds what browsers load, embedded into the binary, and serves it in the encoding
// that a browser accepts: a file is encoded once, a page while it is written.
//
// Packages page and console parse the templates that they need from FS: page/ and mailbox/ are
// page's, admin/ is the console's, shared/ is drawn by both. The modules and style sheets of
// static/ and widget/ import each other; bundled/ has them joined and minified, each one request. A
// test says when it is stale, and go generate ./web makes it anew.
//
// The page and the widget share time.js (waits and clocks), countdown.js (the button that counts),
// cards.js (the card that is swapped), code.js (the code in what was pasted), phone.js (numbers
// while they are typed) and inquiry.js (asking the server).
package web

import "embed"

//go:generate go test . -run TestBundled -update

// FS has the templates and the files that are served.
//
//go:embed */*.html admin/admin.css admin/console.js bundled static/icon.svg widget/*.d.ts
var FS embed.FS

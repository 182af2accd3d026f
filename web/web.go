// Package web holds the files that browsers load, embedded into the binary, and serves them
// compressed: a file is compressed once, a page while it is written.
//
// Packages page and console parse their templates from FS: page/ and mailbox/ belong to page,
// admin/ and shared/ to the console. The modules and style sheets of static/ and widget/
// import each other; bundled/ has them joined and minified, so that each needs one request. A test
// fails when bundled/ is stale, and go generate ./web makes it anew.
//
// The page is the widget with a document around it (page.html, page.js, page.css).
package web

import "embed"

//go:generate go test . -run TestBundled -update

// FS has the templates and the files that are served.
//
//go:embed */*.html admin/admin.css admin/console.js bundled static/icon.svg widget/*.d.ts
var FS embed.FS

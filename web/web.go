// Package web has the files that browsers load, embedded into the binary, and serves them
// compressed. A file is compressed once for each encoding, and a page for each response.
//
// Packages page, console and reference parse their templates from FS. The directories page/ and
// mailbox/ belong to package page. The directory admin/ belongs to package console, and docs/ to
// package reference. Packages page and console use shared/. The modules and style sheets of static/
// and widget/ import each other. The directory bundled/ has each of them joined with its imports
// and minified, so that a browser needs one request for it. A test fails if bundled/ is stale, and
// go generate ./web makes bundled/ anew.
//
// The page is the widget with a document around it (page.html, page.js, page.css).
package web

import "embed"

//go:generate go test . -run TestBundled -update

// FS has the templates and the files that are served.
//
//go:embed */*.html admin/admin.css admin/console.js bundled static/icon.svg widget/*.d.ts
var FS embed.FS

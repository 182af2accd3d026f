// Package web holds the pages' templates, style sheets and scripts, embedded into the binary.
//
// Packages page and console parse the templates that they need from FS: page/ and mailbox/ are page's, shared/ is drawn by both. What
// a page's browser loads lies in static/ and is served by ServeStatic; the widget that other sites load lies in widget/ and is served by
// package widget. Files are written as modules that import each other and are served bundled, each one request.
//
// The page and the widget share time.js (waits and clocks), countdown.js (the button that counts), cards.js (the card that is
// swapped), code.js (the code in what was pasted), phone.js (numbers while they are typed) and inquiry.js (asking the server).
package web

import "embed"

// FS has one directory per audience, static/ and widget/.
//
//go:embed */*.html static/* widget/*
var FS embed.FS

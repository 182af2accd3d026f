// Package web holds the pages' templates, style sheets and scripts, embedded into the binary.
//
// Packages ui and admin parse the templates that they need from FS: page/ and mailbox/ are ui's, shared/ is drawn by
// both. What a browser loads lies in static/ and is served by Assets; widget.js is what other sites load. There is no
// build step: the files are served as they are written here, but that scripts name each other with their versions.
//
// The page and the widget share time.js (waits and clocks), countdown.js (the button that counts), cards.js (the card
// that is swapped), phone.js (numbers while they are typed) and inquiry.js (asking the server); page.js and send-code.js are what is
// their own.
package web

import "embed"

// FS has one directory per audience, and static/.
//
//go:embed */*.html static/*
var FS embed.FS

//go:embed widget.js
var widget []byte

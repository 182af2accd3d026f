// Package web holds the pages' templates, style sheets and scripts, embedded into the binary.
//
// Packages ui and admin parse the templates that they need from FS: page/ and mailbox/ are ui's, shared/ is drawn by
// both. What a browser loads lies in static/ and is served by Assets. There is no build step: the files are served as
// they are written here.
package web

import "embed"

// FS has one directory per audience, and static/.
//
//go:embed */*.html static/*
var FS embed.FS

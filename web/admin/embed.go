// Package admin holds what the console's pages are made of: templates, style sheet and script, embedded into the
// binary. Packages under internal/console draw and serve them; tokens and pips come from package web, which every page shares.
package admin

import "embed"

// FS has the templates, admin.css and the scripts.
//
//go:embed *.html admin.css console.js
var FS embed.FS

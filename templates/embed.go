// Package templates has the built-in message templates, embedded in the binary. Outside of tests,
// only package app imports this package. Package app passes FS to message.NewMailRenderer and
// message.NewTextRenderer. README.md in this directory describes the files, and how to replace a
// file.
package templates

import "embed"

// FS has the files mail/… and sms/… of this directory.
//
//go:embed mail sms
var FS embed.FS

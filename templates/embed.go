// Package templates has the built-in message templates, embedded in the binary. Only package app
// imports it, and passes FS to message.NewMailRenderer. README.md beside this file describes the
// files and how to replace one.
package templates

import "embed"

// FS holds mail/… and sms/… as they lie in this directory.
//
//go:embed mail sms
var FS embed.FS

// Package templates carries the built-in message templates inside the binary. Only app imports it
// and hands FS to message.NewMailRenderer; README.md beside this file says how the files are laid
// out and how to replace one.
package templates

import "embed"

// FS holds mail/… and sms/… as they lie in this directory.
//
//go:embed mail sms
var FS embed.FS

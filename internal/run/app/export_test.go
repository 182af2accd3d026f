package app

import "sendcode/internal/http/evp"

// Issuers returns what verifies the tokens that browsers bring to the page.
func (a *App) Issuers() *evp.Verifier { return a.page.Tokens.(*evp.Verifier) }

// NewWithClock is New on a machine with another clock.
var NewWithClock = newWithClock

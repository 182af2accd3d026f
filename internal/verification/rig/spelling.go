package rig

import "sendcode/internal/recipient"

// folded is a rig at which tags and dots of gmail.com are one mailbox.
func Folded(s *Settings) {
	s.Vault.Folding = recipient.Folding{"gmail.com": {PlusTags: true, Dots: true}}
}

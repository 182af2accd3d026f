package store

import ()

// DomainTally is how the mails to the addresses of one domain fared.
type DomainTally struct {
	Domain   string // as masks show it
	Sends    int
	Failed   int
	Rejected int // of those that failed: refused for good by a mail server
}

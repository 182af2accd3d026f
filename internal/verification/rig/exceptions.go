package rig

import (
	"testing"

	"sendcode/internal/recipient"
)

func EmailOf(t *testing.T, address string) recipient.Recipient {
	t.Helper()
	r, err := recipient.Parse(recipient.Email, address)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

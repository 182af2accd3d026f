package mailbox

import (
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
)

// A mail that is held back does not delay the end of the program. It is kept when the mailbox
// closes.
func TestMailboxCloseDoesNotWaitForHeldMails(t *testing.T) {
	box, err := Listen()
	servertest.OK(t, err)
	box.Slow(time.Hour)
	s := session{mailbox: box, to: []string{"slow@simulator.test"}}
	received := make(chan error)
	go func() { received <- s.Data(strings.NewReader("Subject: hi\r\n\r\nhello\r\n")) }()
	servertest.OK(t, box.Close())
	if err := <-received; err != nil || len(box.Messages()) != 1 { // without Close it would arrive after an hour
		t.Errorf("%v, %d mails are kept", err, len(box.Messages()))
	}
}

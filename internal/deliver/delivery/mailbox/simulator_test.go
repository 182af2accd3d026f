package mailbox

import (
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
)

// Close does not wait for the delay of a mail to slowLocalPart. The mail is kept.
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

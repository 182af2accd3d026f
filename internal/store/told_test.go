package store

import "testing"

func TestStatusForApp(t *testing.T) {
	for status, want := range map[Status][2]any{
		Queued: {Queued, false}, Sending: {Sending, false}, Sent: {Undelivered, true}, Unknown: {Undelivered, true},
		Failed: {Failed, true}, Delivered: {Delivered, true},
	} {
		if told, final := (Send{Status: status, Bounced: true}).StatusForApp(true); told != want[0] || final != want[1] {
			t.Errorf("%s, bounced: %s, final %v", status, told, final)
		}
		told, final := Send{Status: status}.StatusForApp(true)
		_, quiet := Send{Status: status}.StatusForApp(false)
		moves := status == Queued || status == Sending
		if told != status || final == (moves || status == Sent || status == Unknown) || quiet == moves {
			t.Errorf("%s: %s, final %v; without reports %v", status, told, final, quiet)
		}
	}
}

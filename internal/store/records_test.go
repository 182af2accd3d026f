package store

import "testing"

func TestStatusForApp(t *testing.T) {
	for status, want := range map[Status][2]any{
		Queued: {Queued, false}, Sending: {Sending, false}, Sent: {Undelivered, true}, Unknown: {Undelivered, true},
		Failed: {Failed, true}, Delivered: {Delivered, true},
	} {
		if got, gotFinal := (Send{Status: status, Bounced: true}).StatusForApp(true); got != want[0] || gotFinal != want[1] {
			t.Errorf("%s, bounced: %s, final %v", status, got, gotFinal)
		}
		got, gotFinal := Send{Status: status}.StatusForApp(true)
		_, finalWithoutReports := Send{Status: status}.StatusForApp(false)
		moves := status == Queued || status == Sending
		if got != status || gotFinal == (moves || status == Sent || status == Unknown) || finalWithoutReports == moves {
			t.Errorf("%s: %s, final %v; without reports %v", status, got, gotFinal, finalWithoutReports)
		}
	}
}

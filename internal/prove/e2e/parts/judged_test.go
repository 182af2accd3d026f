package parts

import (
	"net/http"
	"testing"
	"time"

	history "sendcode/internal/kit/historytest"
)

// TestUndisturbed: a send that is under way when the database begins to fail explains what was told
// before; without it the same answer counts a send too many.
func TestUndisturbed(t *testing.T) {
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	send := history.Request{Kind: history.Send, Recipient: "ana@example.com", Begin: at(0), End: at(30),
		Status: http.StatusAccepted, Body: []byte(`{"id":"v","send":{"id":"s"}}`)}
	look := history.Request{Kind: history.Look, Recipient: "ana@example.com", Begin: at(10), End: at(15), Status: http.StatusOK,
		Body: []byte(`{"quota":{"rules":[{"name":"short","scope":"recipient","limit":1,"remaining":0,"window":2}]}}`)}
	later := send
	later.Begin, later.End = at(21), at(40)
	for _, c := range []struct {
		send history.Request
		want int
	}{{send, 0}, {later, 1}} {
		p := proof{disturbed: at(20), seen: history.History{Requests: []history.Request{look, c.send},
			Rules:    []history.Rule{{Name: "short", Limit: 1, Window: 2 * time.Second}},
			Messages: []history.Message{{Recipient: "ana@example.com", ID: "s@codes.example", At: at(35)}}}}
		found, _ := history.Judge(p.undisturbed())
		n := 0
		for _, v := range found {
			if v.Promise == history.Costs {
				n++
			}
		}
		if n != c.want {
			t.Errorf("%d figures are broken, want %d: %v", n, c.want, found)
		}
	}
}

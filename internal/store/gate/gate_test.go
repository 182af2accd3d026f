package gate

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// A row counts until exactly its window has passed; a row from the future counts too.
func TestEventsWithin(t *testing.T) {
	now := time.Now()
	row := func(n byte, age time.Duration) PastSend { return PastSend{ID: uuid.UUID{n}, At: now.Add(-age)} }
	rows := []PastSend{row(1, -time.Second), row(2, time.Minute), row(3, time.Minute-time.Microsecond), row(4, time.Hour)}
	for window, want := range map[time.Duration]string{0: "", time.Minute: "31", time.Hour: "231"} {
		got := ""
		for _, e := range eventsWithin(window, now, rows) {
			got += string('0' + e.ID[0])
		}
		if got != want {
			t.Errorf("within %v: %s, want %s", window, got, want)
		}
	}
}

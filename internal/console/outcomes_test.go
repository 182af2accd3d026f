package console

import (
	"context"
	"slices"
	"testing"
	"time"

	"sendcode/internal/store"
)

// The list tells what became of each send's code and what its recipient's rules say now, and is filtered by the one.
func TestListTellsWhatBecameOfCodes(t *testing.T) {
	r, ctx := newRig(t), context.Background()
	expired := r.sent("a@example.com")
	r.Clock.Add(10 * time.Minute)
	entered, locked, canceled := r.sent("b@example.com"), r.sent("c@example.com"), r.sent("d@example.com")
	r.Must(r.Log.Approve(ctx, entered.VerificationID, store.NewEvent{}))
	for range 5 {
		r.Must(r.Log.Attempt(ctx, locked.VerificationID))
	}
	r.Must(r.Log.Cancel(ctx, canceled.VerificationID))
	waiting := r.sent("e@example.com", func(s *store.Send) { s.IP = "198.51.100.0/24" })
	refusal := r.refused("e@example.com", "minute", time.Minute, 2)
	b := r.LoggedIn()
	for outcome, s := range map[string]store.Send{"entered": entered, "waiting": waiting, "expired": expired, "locked": locked, "canceled": canceled} {
		page := b.Get("/admin?outcome=" + outcome)
		if got := rowsIn(page.Body.String()); !slices.Equal(got, []string{s.ID.String()}) {
			t.Errorf("%s: %v", outcome, got)
		}
		contains(t, page, `</span> `+outcome+`</span>`, `<option value="`+outcome+`" selected>`, `<option value="24h" selected>`, "1 row")
	}
	list := b.Get("/admin?limit=2")
	contains(t, list, `data-left="599816"`, "2 rows, more follow", "<span>1/1</span> <span>1/5</span> <span>1/10</span>", `class="pips-set blocked"`)
	if got := rowsIn(list.Body.String()); !slices.Contains(got, refusal.ID.String()) {
		t.Errorf("the list has %v", got)
	}
	for _, network := range []string{"198.51.100.0/24", "198.51.100.77", "198.51.100.77/24"} {
		if got := rowsIn(b.Get("/admin?network=" + network).Body.String()); !slices.Equal(got, []string{waiting.ID.String()}) {
			t.Errorf("from %s: %v", network, got)
		}
	}
}

package verification

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// withOffice adds a rule on networks to every purpose.
func withOffice(s *Settings) {
	for name, p := range s.Terms.Purposes {
		p.Policy.Rules = append(p.Policy.Rules[:len(p.Policy.Rules):len(p.Policy.Rules)], quota.Rule{Name: "office", Scope: quota.IP, Limit: 1, Window: time.Hour})
		s.Terms.Purposes[name] = p
	}
}

func strangersAddress(n int) string { return fmt.Sprintf("stranger-%d@example.com", n) }

// heap is what is in use once everything that can go has gone.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what has finalizers goes with the second
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// refusedRows are all rows of refusals.
func (r *rig) refusedRows() (rows []store.Send) {
	r.Helper()
	filter := store.Filter{Status: store.Refused, Limit: 200}
	for {
		page, err := r.log.Sends(r.Context(), filter)
		if err != nil {
			r.Fatal(err)
		}
		rows = append(rows, page...)
		if len(page) < filter.Limit {
			return rows
		}
		last := page[len(page)-1]
		filter.Before = &store.Mark{At: last.LoggedAt, ID: last.ID}
	}
}

func (r *rig) rowsOf(to string) []store.Send {
	r.Helper()
	to2, err := parseRecipient("email", to)
	if err != nil {
		r.Fatal(err)
	}
	h := r.svc.hash(to2)
	rows, err := r.log.Sends(r.Context(), store.Filter{Recipient: &h, Limit: 10})
	if err != nil {
		r.Fatal(err)
	}
	return rows
}

// One address over its limit asks for 100,000 codes for 100,000 strangers: that fills neither the log nor memory, every request
// is counted, and support finds the first of them.
func TestAHundredThousandStrangersFillNothing(t *testing.T) {
	const strangers = 100_000
	inBubbleWith(t, withOffice, func(r *rig) {
		ask := Ask{Caller: browser, Channel: "email", To: ana, Languages: "de-CH, de;q=0.9", Reference: "nobody needs this"}
		ask.IP = netip.MustParseAddr("2001:db8::1")
		r.send(ask)
		before := heap()
		for i := range strangers {
			ask.To = strangersAddress(i)
			r.refuse(ask)
			if i%1000 == 0 {
				waited(time.Second) // batches are written meanwhile
			}
		}
		waited(3 * time.Second)
		grown := heap() - before
		rows := r.refusedRows()
		own, shared, requests := sums(rows)
		if len(rows) > 200 || own != firstOwn || shared != 1 || requests != strangers {
			t.Errorf("%d rows of their own and %d shared stand for %d requests", own, shared, requests)
		}
		if grown > 30<<20 {
			t.Errorf("memory has grown by %d KiB", grown>>10)
		}
		t.Logf("%d rows, memory has grown by %d KiB", len(rows), grown>>10)
		for i := range firstOwn {
			if found := r.rowsOf(strangersAddress(i)); len(found) != 1 || found[0].BlockedBy != "office" || found[0].Count != 1 {
				t.Fatalf("of stranger %d support finds %+v", i, found)
			}
		}
		if found := r.rowsOf(strangersAddress(firstOwn)); len(found) != 0 {
			t.Errorf("of a later stranger there is %+v", found)
		}
		for _, row := range rows {
			if row.Reference != "" || row.Locale != "" && row.Locale != "de-CH" {
				t.Fatalf("a refused row has locale %q and reference %q", row.Locale, row.Reference)
			}
			if row.Recipients > 0 && (row.Count != strangers-firstOwn || row.Recipients < strangers*9/10 || row.Recipients > strangers*11/10) {
				t.Errorf("the shared row stands for %d requests and %d recipients", row.Count, row.Recipients)
			}
		}
	})
}

// Rows are a process's own: another replica, and the same one after a restart, have as many again, and nothing is counted twice.
func TestEachReplicaHasRowsOfItsOwn(t *testing.T) {
	const strangers = 200
	inBubbleWith(t, withOffice, func(r *rig) {
		r.send(Ask{Caller: browser, Channel: "email", To: ana})
		from := 0
		refuse := func() {
			for i := range strangers {
				r.refuse(Ask{Caller: browser, Channel: "email", To: strangersAddress(from + i)})
			}
			from += strangers
			waited(3 * time.Second)
		}
		refuse()
		r.quit()
		r.svc = r.replica(r.post)
		r.run()
		refuse()
		if own, shared, requests := sums(r.refusedRows()); own != 2*firstOwn || shared != 2 || requests != 2*strangers {
			t.Errorf("%d rows of their own and %d shared stand for %d requests", own, shared, requests)
		}
	})
}

package quota

import (
	"fmt"
	"testing"
	"time"
)

// A gateway's route: 1,000 in any second; looking without counting, counting without looking, and both at once.
func TestAThousandPerSecond(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		route := Rule{Name: "route", Scope: App, Limit: 1000, Window: time.Second}
		buckets := map[Scope]string{App: Bucket("route", "/v1/search")}
		look := func() Decision {
			d, err := w.Peek(t.Context(), Request{Rules: []Rule{route}, Buckets: buckets})
			must(t, err)
			return d
		}
		take := func() Decision {
			d, err := w.Take(t.Context(), Request{ID: w.id(), Rules: []Rule{route}, Buckets: buckets})
			must(t, err)
			return d
		}
		var counted []Event
		for i := range 998 {
			counted = append(counted, Event{ID: fmt.Sprint("count ", i), At: w.now.Add(time.Duration(i-998) * µs)})
		}
		must(t, w.Record(t.Context(), buckets[App], route.Keep(), counted))
		for range 3 {
			same(t, "left, however often one looks", look().Rules[0].Remaining(), 2)
		}
		for range 2 {
			same(t, "both", take().Admitted, true)
		}
		d := take()
		same(t, "the next", d.Admitted, false)
		same(t, "its wait", d.RetryAfter(), time.Second-998*µs)
		must(t, w.Record(t.Context(), buckets[App], route.Keep(), []Event{{"one too many", w.now}}))
		same(t, "counted all the same", look().Rules[0].Used, 1001)
		same(t, "and waited for", look().RetryAfter(), time.Second-997*µs)
	})
}

// 100 per 60 s for a resource and an address: neither another resource nor another address is touched.
func TestAHundredPerMinuteForAResourceAndAnAddress(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := []Rule{{Name: "visits", Scope: IP, Limit: 100, Window: time.Minute}}
		visit := func(resource, ip string) Decision {
			d, err := w.Take(t.Context(), Request{ID: w.id(), Rules: rules, Buckets: map[Scope]string{IP: Bucket(resource, ip)}})
			must(t, err)
			return d
		}
		for i := range 100 {
			same(t, "left", visit("/price", "192.0.2.1").Rules[0].Remaining(), 99-i)
		}
		d := visit("/price", "192.0.2.1")
		same(t, "the next", d.Admitted, false)
		same(t, "its wait", d.RetryAfter(), time.Minute)
		same(t, "another resource", visit("/stock", "192.0.2.1").Admitted, true)
		same(t, "another address", visit("/price", "192.0.2.2").Admitted, true)
	})
}

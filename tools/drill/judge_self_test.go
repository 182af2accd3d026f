package drill

import (
	"strings"
	"testing"
	"time"
)

// What is wrong is found: a drill that calls everything right would be of no use.
func TestJudge(t *testing.T) {
	at := time.Date(2026, 3, 4, 14, 2, 20, 0, time.UTC)
	known := map[string]fact{"ended": {from: at, to: at.Add(time.Second)}, "app": {word: "shop (old)"}}
	k := &kind{what: words("Accepted by\n at {ended}"), next: words("app {app}\n spam"), never: words("Rejected")}
	right := heard{page: page{What: "Accepted by mx at ⟨2026-03-04T14:02:21.000Z⟩ (250).", Next: "Of app shop (old): check spam."},
		actions: 2}
	if fault := k.wrong(right, known); fault != "" {
		t.Errorf("right, but: %s", fault)
	}
	right.actions, right.shared = 3, true
	if fault := k.wrong(right, known); fault != "" {
		t.Errorf("right, and told whose the reference is, but: %s", fault)
	}
	right.actions, right.shared = 2, false
	for part, change := range map[string]func(*heard){
		`verdict lacks "Accepted by"`:        func(h *heard) { h.What = "It went at ⟨2026-03-04T14:02:21.000Z⟩." },
		`verdict lacks "at {ended}`:          func(h *heard) { h.What = strings.Replace(h.What, ":21", ":24", 1) },
		`lacks "at {ended} [2026-03-04T14`:   func(h *heard) { h.What = strings.Replace(h.What, ":21", ":17", 1) },
		`verdict lacks "at {ended} [`:        func(h *heard) { h.What = "Accepted by mx at 14:02:21." },
		`next step lacks "app {app}"`:        func(h *heard) { h.Next = "Of app shop: check spam." },
		`next step lacks "spam"`:             func(h *heard) { h.Next = "Of app shop (old): wait." },
		`it says "Rejected"`:                 func(h *heard) { h.Next += " Rejected." },
		`it took 3 actions`:                  func(h *heard) { h.actions = 3 },
		`it took 4 actions`:                  func(h *heard) { h.actions, h.shared = 4, true },
		`"app {app}", of which nothing is k`: func(*heard) { delete(known, "app") },
	} {
		h := right
		app := known["app"]
		change(&h)
		if fault := k.wrong(h, known); !strings.Contains(fault, part) {
			t.Errorf("want %s, got: %s", part, fault)
		}
		known["app"] = app
	}
}

// There are as many kinds as were asked for, and each is told apart by what has to be said.
func TestKinds(t *testing.T) {
	if len(kinds) < 15 {
		t.Errorf("%d kinds", len(kinds))
	}
	said := map[string]string{}
	for _, k := range kinds {
		all := strings.Join(append(append([]string{}, k.what...), k.next...), "|")
		if len(k.what) == 0 || len(k.next) == 0 || said[all] != "" {
			t.Errorf("%s says as little, or the same as %q", k.name, said[all])
		}
		said[all] = k.name
	}
}

func TestNearest(t *testing.T) {
	now := time.Now()
	rows := []listed{{now, "b"}, {now, "a"}, {now.Add(-70 * time.Minute), "a"}, {now.Add(-time.Hour), "b"}, {now.Add(-3 * time.Hour), "a"}}
	for ago, want := range map[time.Duration]int{0: 1, time.Hour: 2, 2 * time.Hour: 2, 150 * time.Minute: 4} {
		if got := nearest(rows, "a", ago); got != want {
			t.Errorf("%v ago is row %d, want %d", ago, got, want)
		}
	}
}

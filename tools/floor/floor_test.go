package main

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
)

// What the fair floor does, beside HTTP and the bytes that it copies, stays a program that one reads in ten minutes.
func TestFairFloorIsSmall(t *testing.T) {
	lines := 0
	for _, file := range []string{"fair.go", "sharing.go", "mailer.go"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(raw), "\n")
	}
	if lines > 300 {
		t.Errorf("%d lines, want at most 300", lines)
	}
}

func TestTemplate(t *testing.T) {
	s := samples{Verification: "VVV", Send: "SSS", To: "a@b", Digits: "123456"}
	x := &code{verification: "v2", send: uuid.Nil, to: "c@d", digits: "654321"}
	if got := string(s.cut("VVV: 123456 to a@b, again 123456; SSS").fill(x)); got != "v2: 654321 to c@d, again 654321; "+uuid.Nil.String() {
		t.Error(got)
	}
}

// Everything gets its answer, and no trip has two sends of a recipient.
func TestSharing(t *testing.T) {
	entered, go1 := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var mu sync.Mutex
	trips := 0
	s := &sharing{most: 1, trip: func(_ context.Context, batch []*code) (map[uuid.UUID]bool, error) {
		once.Do(func() { close(entered); <-go1 })
		mu.Lock()
		defer mu.Unlock()
		trips++
		seen, admitted := map[string]bool{}, map[uuid.UUID]bool{}
		for _, x := range batch {
			if seen[x.to] {
				t.Errorf("%s twice in one trip", x.to)
			}
			seen[x.to], admitted[x.send] = true, true
		}
		return admitted, nil
	}}
	var all sync.WaitGroup
	ask := func(to string) {
		all.Go(func() {
			if admitted, err := s.do(&code{to: to, send: uuid.New()}); err != nil || !admitted {
				t.Errorf("%s: %v %v", to, admitted, err)
			}
		})
	}
	ask("first")
	<-entered
	for range 3 {
		ask("ann")
		ask("ben")
	}
	for waiting := 0; waiting < 6; {
		s.mu.Lock()
		waiting = len(s.waiting)
		s.mu.Unlock()
	}
	close(go1)
	all.Wait()
	if trips != 4 {
		t.Errorf("%d trips, want one for the first and three for the others", trips)
	}
}

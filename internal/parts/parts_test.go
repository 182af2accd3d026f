package parts

import (
	"context"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func do(t *testing.T, steps ...func() error) {
	t.Helper()
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

func gone(pid int) bool { s := state(pid); return s == "" || s == "Z" }

func awaitGone(t *testing.T, pid int) {
	t.Helper()
	awaitTrue(t, func() bool { return gone(pid) }, "process %d still runs", pid)
}

// awaitStopped takes a dead process for stopped, too: a stopped parent cannot
// take leave of a short-lived child.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	awaitTrue(t, func() bool { return state(pid) == "T" || gone(pid) }, "process %d is not stopped", pid)
}

func awaitTrue(t *testing.T, condition func() bool, format string, args ...any) {
	t.Helper()
	tick, late := time.NewTicker(5*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf(format, args...)
		}
	}
}

// shortly asks for an answer that should not come.
func shortly(t *testing.T, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	return ask(ctx)
}

// recorder stands in for a test and notes how it would have ended.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Helper()           {}
func (r *recorder) Skip(args ...any)  { r.skipped = args[0].(error).Error(); runtime.Goexit() }
func (r *recorder) Fatal(args ...any) { r.failed = args[0].(error).Error(); runtime.Goexit() }

func (r *recorder) run(test func(testing.TB)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done
}

func TestMissingPartSkipsButFailsInCI(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for name, start := range map[string]func(testing.TB){
		"redis-server": func(t testing.TB) { Redis(t) },
		"chromium":     func(t testing.TB) { Chromium(t) },
		"node":         func(t testing.TB) { Node(t) },
		"python3":      func(t testing.TB) { Python(t) },
	} {
		t.Setenv("CI", "")
		here := &recorder{TB: t}
		if here.run(start); !strings.Contains(here.skipped, name) || here.failed != "" {
			t.Errorf("%s: skipped %q, failed %q; want a skip that names it", name, here.skipped, here.failed)
		}
		for _, value := range []string{"true", "1"} {
			t.Setenv("CI", value)
			ci := &recorder{TB: t}
			if ci.run(start); !strings.Contains(ci.failed, name) || ci.skipped != "" {
				t.Errorf("%s, CI=%s: skipped %q, failed %q; want a failure", name, value, ci.skipped, ci.failed)
			}
		}
	}
}

func TestChromiumIsAProgram(t *testing.T) {
	info, err := os.Stat(Chromium(t))
	if err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	seen := make(map[int]bool)
	for range 50 {
		port := FreePort(t)
		if seen[port] {
			t.Fatalf("port %d twice", port)
		}
		seen[port] = true
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}

func TestPlaceWithAListenerIsNotTaken(t *testing.T) {
	base := t.TempDir()
	p := newPlace(base, FreePort(t))
	l, err := net.Listen("tcp4", p.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if ok, err := p.take(); ok || err != nil {
		t.Errorf("taken: %v, %v", ok, err)
	}
}

func TestSweepSparesPlacesInUse(t *testing.T) {
	base := t.TempDir()
	used, left := newPlace(base, FreePort(t)), newPlace(base, FreePort(t))
	for _, p := range []*place{used, left} {
		if ok, err := p.take(); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if err := left.lock.Close(); err != nil { // as when its owner dies
		t.Fatal(err)
	}
	if again := newPlace(base, used.port); func() bool { ok, _ := again.take(); return ok }() {
		t.Error("a place in use was taken again")
	}
	sweep(base)
	if _, err := os.Stat(used.dir); err != nil {
		t.Errorf("the place in use: %v", err)
	}
	if _, err := os.Stat(left.dir); !os.IsNotExist(err) {
		t.Errorf("the place left behind: %v", err)
	}
	do(t, used.release, used.release)
}

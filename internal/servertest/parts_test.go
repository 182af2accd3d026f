package servertest

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/servertest/locate"
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

func TestMissingSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CC", "")
	for _, part := range []locate.Part{locate.Redis(), locate.Compiler()} {
		_, err := part.Find()
		var missing *locate.Missing
		if !errors.As(err, &missing) {
			t.Fatalf("%s: error %v, want *Missing", part.Name, err)
		}
		for _, want := range append(slices.Clone(part.Debian), part.Name, part.Homebrew) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not name %q", err, want)
			}
		}
	}
}

//go:build nightly

// Only `make nightly` runs these tests: keys are rotated rarely.
package operators

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/app/doctor"
)

const (
	indexKey      = "8mF2hT0cJr4xWq7nZl9sVb3yKd6gPe1uAoXiRtNwQzE="
	otherIndexKey = "vJ0d1cHk4nTq8yWm2xRzPb6sLf3gEo9uAaXiNtKwQhU="
)

func withKeys(s *apptest.Stack, ring, index string) {
	s.Env["SENDCODE_SECRET_KEYS"], s.Env["SENDCODE_INDEX_KEY"] = ring, index
}

// runDoctor runs the doctor, and returns its output and whether it found a fault.
func runDoctor(s *apptest.Stack) (output string, faulty bool) {
	s.Helper()
	var out strings.Builder
	err := doctor.Examine(s.Context(), s.Config(), &out)
	return out.String(), err != nil
}

// Two replicas start at once on an empty database with different index keys, and only one of them
// starts. After the statement in docs/operations.md, a replica with the other key can start.
func TestOneOfTwoReplicasWithOtherIndexKeysStarts(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	var wg sync.WaitGroup
	var apps [2]*app.App
	var errs [2]error
	for i, index := range []string{indexKey, otherIndexKey} {
		withKeys(s, oldKey, index)
		cfg := s.Config()
		wg.Go(func() { apps[i], errs[i] = s.New(cfg) })
	}
	wg.Wait()
	started := 0
	for i, a := range apps {
		if errs[i] == nil {
			s.Serve(a)
			started++
		} else if !strings.Contains(errs[i].Error(), "with other keys: index key: ") {
			t.Errorf("the other: %v", errs[i])
		}
	}
	if started != 1 {
		t.Fatalf("%d replicas started: %v", started, errs)
	}
	s.Stop(0)
	text, err := os.ReadFile("../../../../docs/operations.md")
	apptest.Must(t, err)
	_, section, _ := strings.Cut(string(text), "\n### Keys\n")
	connect(s, s.Env["SENDCODE_DATABASE_URL"]).exec(servertest.Blocks(t, section, "sql")[0])
	if withKeys(s, oldKey, indexKey); errs[0] == nil {
		withKeys(s, oldKey, otherIndexKey)
	}
	s.Start(1)
}

// fleet is two replicas. A test replaces them one after the other.
type fleet struct {
	*apptest.Stack
	at    [2]int // the indexes of the two in Replicas
	asked int
}

// requestCode sends a code through a replica, and returns the code and its ID.
func (f *fleet) requestCode(i int) (id, code string) {
	f.Helper()
	f.asked++
	to := fmt.Sprintf("r%d@example.com", f.asked)
	a := f.Ask(f.at[i], to)
	f.Is("a send", a, http.StatusAccepted)
	return a.ID, f.CodeIn(f.AwaitMail(to, 1)[0])
}

// rotateKeys replaces the replicas by replicas with another ring of keys. A code of each replica,
// made before or after each step, is right at the other one.
func (f *fleet) rotateKeys(ring string) {
	f.Helper()
	f.Env["SENDCODE_SECRET_KEYS"] = ring
	for i := range f.at {
		var id, code [2]string
		for n := range f.at {
			id[n], code[n] = f.requestCode(n)
		}
		f.Stop(f.at[i])
		f.Start(1)
		f.at[i] = len(f.Replicas) - 1
		for n := range f.at {
			f.Approves(f.at[1-n], id[n], code[n])
			newID, newCode := f.requestCode(n)
			f.Approves(f.at[1-n], newID, newCode)
			if status, said := f.Ready(f.at[n]); status != http.StatusOK || said != "ok" {
				f.Errorf("with %d keys, replica %d: %d %s", strings.Count(ring, ":"), n, status, said)
			}
		}
	}
}

// The keys are rotated as docs/operations.md describes, replica by replica. If a key is removed too
// early, /readyz, the doctor and the log name it.
func TestKeysAreRolled(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	withKeys(s, oldKey, indexKey)
	s.Start(2)
	f := &fleet{Stack: s, at: [2]int{0, 1}}
	oldID, oldCode := f.requestCode(0)

	f.rotateKeys(oldKey + "," + newKey)
	f.rotateKeys(newKey + "," + oldKey)
	apptest.Must(t, app.Rekey(s.Context(), s.Config(), io.Discard))
	if said, _ := runDoctor(s); strings.Contains(said, "✗ keys") || strings.Contains(said, "! keys") {
		t.Errorf("after rekey, the doctor says %s", said)
	}
	for _, never := range []string{"key ring incomplete", "keys differ", "request needs missing key"} {
		if s.Logged(never) {
			t.Errorf("the log says %q", never)
		}
	}

	// The old key is removed before its codes have ended.
	s.Env["SENDCODE_SECRET_KEYS"] = newKey
	s.Stop(f.at[0])
	s.Start(1)
	f.at[0] = len(s.Replicas) - 1
	const missing = "degraded: key_missing: SENDCODE_SECRET_KEYS lacks k1, which codes or stored addresses need."
	if status, said := s.Ready(f.at[0]); status != http.StatusOK || said != missing {
		t.Errorf("without k1: %d %s", status, said)
	}
	said, faulty := runDoctor(s)
	const lacks = `✗ keys: codes that have not expired need key "k1", which is not in SENDCODE_SECRET_KEYS`
	if !faulty || !strings.Contains(said, lacks) || strings.Contains(said, oldKey[3:15]) {
		t.Errorf("the doctor finds no fault, or shows a key: %s", said)
	}
	s.Unavailable(s.Check(f.at[0], oldID, oldCode))
	for _, line := range []string{
		`"msg":"key ring incomplete: codes or stored addresses need keys that SENDCODE_SECRET_KEYS lacks","keys":\["k1"\],"see":"docs/runbooks.md#keys"`,
		`"msg":"request needs missing key","problem":"unavailable","error":"unavailable: keys: unknown key id k1","see":"docs/runbooks.md#keys","request_id":"[^"]*"`,
	} {
		if !regexp.MustCompile(line).MatchString(s.Printed.String()) {
			t.Errorf("no line %s", line)
		}
	}
	f.Approves(f.at[1], oldID, oldCode) // this replica has the key

	// The codes under k1 expire, as after ten minutes.
	connect(s, s.Env["SENDCODE_DATABASE_URL"]).exec(`UPDATE verifications SET expires_at = now() WHERE key_id = 'k1'`)
	f.rotateKeys(newKey)
}

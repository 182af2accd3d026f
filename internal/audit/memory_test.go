package audit

import (
	"errors"
	"testing"
)

func TestMemoryFaults(t *testing.T) {
	f := newMemoryFixture(t)
	m := f.Log.(*Memory)
	fault := None
	var asked []string
	m.SetFault(func(method string) Fault { asked = append(asked, method); return fault })

	fault = Down
	in := f.intent(1)
	_, err := f.Begin(t.Context(), in)
	is(t, err, ErrUnavailable)
	if errors.Is(err, ErrUncertain) {
		t.Errorf("down, but %v", err)
	}
	fault = None
	equal(t, "rows while down", len(f.all(t)), 0)

	fault = Lost
	begun, err := f.Begin(t.Context(), in)
	is(t, err, ErrUnavailable)
	is(t, err, ErrUncertain)
	equal(t, "answer", begun, Begun{})
	fault = None
	equal(t, "rows written all the same", len(f.all(t)), 1)
	equal(t, "repeated", f.begin(t, in).Admitted, true)
	equal(t, "calls", asked, []string{"Begin", "Sends", "Begin", "Sends", "Begin"})

	m.SetFault(nil)
	ok(t, m.Ping(t.Context()))
}

// What is read is a copy: a caller that changes it changes nothing in the log.
func TestMemoryCopies(t *testing.T) {
	f := newMemoryFixture(t)
	begun := f.admit(t, f.intent(1))
	begun.Verification.Nonce[0], begun.Verification.Sealed[0] = 'X', 'X'
	v, _, _, err := f.Verification(t.Context(), begun.Verification.ID)
	ok(t, err)
	equal(t, "nonce", string(v.Nonce), "0123456789abcdef")
	equal(t, "sealed", v.Sealed, []byte{0, 1, 255})
}

package keys

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// fixedVector was sealed once, with key a, the label "recipient" and the additional data "row 7".
const fixedVector = "010161aee36d14d3d94c0b6d38b5cc9c197da94128d2cd32ad252b0d63a7" +
	"7a11d86ed3a4da11cedcbb1a615b346977e36cdb462f4e501acefdf2"

func TestSealAndOpen(t *testing.T) {
	r := ring(t, "a:"+secret1)
	for _, plaintext := range []string{"", "ana@example.com", strings.Repeat("\x00", 1000)} {
		sealed, err := r.Seal("recipient", []byte(plaintext), nil)
		if err != nil {
			t.Fatal(err)
		}
		wantOpened(t, r, sealed, plaintext)
		if again, _ := r.Seal("recipient", []byte(plaintext), nil); bytes.Equal(sealed[3:27], again[3:27]) {
			t.Error("two seals share a nonce")
		}
	}
}

func TestOpenRefusesWhatWasTouched(t *testing.T) {
	r := ring(t, "a:"+secret1+",b:"+secret2)
	sealed, _ := r.Seal("recipient", []byte("ana@example.com"), []byte("row 7"))
	for i := range sealed {
		for _, flip := range []byte{1, 0x80} {
			bad := bytes.Clone(sealed)
			bad[i] ^= flip
			if got, err := r.Open("recipient", bad, []byte("row 7")); got != nil ||
				!errors.Is(err, errCannotOpen) && !errors.Is(err, ErrUnknownKey) {
				t.Errorf("byte %d flipped: %q, %v", i, got, err)
			}
		}
		if _, err := r.Open("recipient", sealed[:i], []byte("row 7")); !errors.Is(err, errCannotOpen) {
			t.Errorf("cut to %d bytes: %v, want errCannotOpen", i, err)
		}
	}
	later := append([]byte{2, 1, 'z'}, sealed[3:]...)
	otherKey := bytes.Clone(sealed)
	otherKey[2] = 'b'
	for name, c := range map[string]struct {
		label      string
		sealed     []byte
		additional string
	}{
		"other label":      {"session", sealed, "row 7"},
		"other additional": {"recipient", sealed, "row 8"},
		"no additional":    {"recipient", sealed, ""},
		"other key":        {"recipient", otherKey, "row 7"},
		"later version":    {"recipient", later, "row 7"},
		"longer":           {"recipient", append(bytes.Clone(sealed), 0), "row 7"},
		"nothing":          {"recipient", nil, "row 7"},
	} {
		if _, err := r.Open(c.label, c.sealed, []byte(c.additional)); !errors.Is(err, errCannotOpen) {
			t.Errorf("%s: %v, want errCannotOpen", name, err)
		}
	}
}

func TestSealedBytesCannotMoveBetweenHeaderAndAdditional(t *testing.T) {
	short, long := ring(t, "a:"+secret1), ring(t, "ab:"+secret1)
	sealed, _ := short.Seal("recipient", []byte("ana"), []byte("b7"))
	moved := append([]byte{1, 2, 'a', 'b'}, sealed[3:]...)
	if _, err := long.Open("recipient", moved, []byte("7")); !errors.Is(err, errCannotOpen) {
		t.Errorf("%v, want errCannotOpen", err)
	}
}

// SealedBy names no key if the header has no valid key ID, or gives an impossible length for it.
func TestSealedBy(t *testing.T) {
	r := ring(t, "a1:"+secret1)
	sealed, _ := r.Seal("recipient", []byte("ana"), nil)
	if got := SealedBy(sealed); got != "a1" {
		t.Errorf("%q", got)
	}
	for length := range 256 {
		for _, size := range []int{2, 2 + length - 1, 2 + length, 300} {
			damaged := make([]byte, max(size, 2))
			damaged[0], damaged[1] = sealVersion, byte(length)
			if got := SealedBy(damaged); got != "" {
				t.Errorf("length %d of %d bytes: %q", length, size, got)
			}
		}
	}
}

func FuzzOpen(f *testing.F) {
	r, err := Parse("a:" + secret1 + ",b:" + secret2)
	if err != nil {
		f.Fatal(err)
	}
	good, _ := hex.DecodeString(fixedVector)
	for _, seed := range [][]byte{good, good[:27], good[:3], {1, 255}, {1, 0}, {0}, {1, 1, 'b'}, nil} {
		f.Add(seed, []byte("row 7"))
	}
	f.Fuzz(func(t *testing.T, sealed, additional []byte) {
		before := bytes.Clone(sealed)
		got, err := r.Open("recipient", sealed, additional)
		genuine := bytes.Equal(sealed, good) && string(additional) == "row 7"
		if genuine != (err == nil) || genuine && string(got) != "ana@example.com" {
			t.Errorf("genuine %v, error %v", genuine, err)
		}
		if err != nil && !errors.Is(err, errCannotOpen) && !errors.Is(err, ErrUnknownKey) {
			t.Errorf("error %v", err)
		}
		if !bytes.Equal(before, sealed) {
			t.Error("Open wrote into its input")
		}
	})
}

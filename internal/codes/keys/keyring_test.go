package keys

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// These are SHA-256 of "sendcode test key 1" and of "sendcode test key 2".
const (
	secret1 = "eraMBDgFAXRfsiCqlVMvXRaNjjU/Vazh2pxtK5ocpcI="
	secret2 = "KsX548KrTLEYf3plsNe9tow4CUSACpuzYDGYoWlrspU="
)

func ring(t *testing.T, value string) *Ring {
	t.Helper()
	r, err := Parse(value)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantOpened opens data that was sealed under the label recipient, without additional data. It
// fails the test unless the result is want.
func wantOpened(t *testing.T, r *Ring, sealed []byte, want string) {
	t.Helper()
	if got, err := r.Open("recipient", sealed, nil); err != nil || string(got) != want {
		t.Errorf("opened %q, %v, want %q", got, err, want)
	}
}

// Another implementation of HKDF computed these vectors. A change here makes every pending code
// invalid and every stored recipient unreadable.
func TestSubkeyVectors(t *testing.T) {
	r := ring(t, "a:"+secret1+",b:"+secret2)
	for _, c := range []struct{ id, use, label, want string }{
		{"a", subkeyUse, "code", "5677c95a633ee18729c37168c4aaf45b5d5e0d516b59a9f6112de34a3b671f27"},
		{"a", subkeyUse, "recipient", "dcfbf16ca04e2f1bd8e4766a20786e7a002418c985c345981f2b0de2ba50d444"},
		{"b", subkeyUse, "code", "a4270222e0821326006f4a032bca55be133f8de7725c62f0f1c1101caab235d8"},
		{"a", sealUse, "code", "3417f70b59fed683fa97f5ccecb3fad92b7cf5985c1379e06d7a9d163773bff5"},
		{"b", sealUse, "code", "cb664e039ecb4c6e5d6dd48dce9c429584ec6de0709140f1a077e86276f76702"},
	} {
		got, err := r.derive(derivation{c.id, c.use, c.label})
		if err != nil || hex.EncodeToString(got.key) != c.want {
			t.Errorf("%+v: %x, %v", c, got.key, err)
		}
		if key, err := r.Subkey(c.id, c.label); c.use == subkeyUse && (err != nil || !bytes.Equal(key, got.key)) {
			t.Errorf("%+v: the sub-key is %x, %v", c, key, err)
		}
	}
}

func TestSubkeyErrors(t *testing.T) {
	r := ring(t, "a:"+secret1)
	for _, id := range []string{"", "b", "A", "a "} {
		if _, err := r.Subkey(id, "code"); !errors.Is(err, ErrUnknownKey) {
			t.Errorf("id %q: %v, want ErrUnknownKey", id, err)
		}
	}
	var none Ring
	if _, err := none.Seal("recipient", nil, nil); !errors.Is(err, ErrUnknownKey) || none.CurrentID() != "" {
		t.Errorf("the zero ring seals: %v", err)
	}
	key, _ := r.Subkey("a", "code")
	clear(key)
	if again, _ := r.Subkey("a", "code"); bytes.Equal(again, key) {
		t.Error("writing into a sub-key changed the ring")
	}
}

func TestRotation(t *testing.T) {
	old, both, fresh := ring(t, "a:"+secret1), ring(t, "b:"+secret2+",a:"+secret1), ring(t, "b:"+secret2)
	if old.CurrentID() != "a" || both.CurrentID() != "b" {
		t.Errorf("current keys %q and %q", old.CurrentID(), both.CurrentID())
	}
	before, _ := old.Subkey("a", "code")
	if after, err := both.Subkey("a", "code"); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the old key changed under rotation: %v", err)
	}
	sealed, _ := old.Seal("recipient", []byte("ana"), nil)
	wantOpened(t, both, sealed, "ana")
	if _, err := fresh.Open("recipient", sealed, nil); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("after removal: %v, want ErrUnknownKey", err)
	}
	sealed, _ = both.Seal("recipient", []byte("ben"), nil)
	wantOpened(t, fresh, sealed, "ben")
}

func TestRingPrintsRedacted(t *testing.T) {
	r := ring(t, "alpha:"+secret1)
	type holder struct {
		r Ring
		p *Ring
	}
	var out bytes.Buffer
	for _, v := range []any{r, *r, holder{*r, r}, &holder{*r, r}, []any{*r}, map[string]*Ring{"x": r}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%T"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		_ = json.NewEncoder(&out).Encode(v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "ring", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "ring", v)
	}
	if !strings.Contains(out.String(), "keys(1 redacted)") {
		t.Error("the redacted form is not printed")
	}
	raw, _ := DecodeKey(secret1)
	prk := r.content().keys[0].prk
	for name, secret := range map[string][]byte{"secret": raw, "extracted key": prk} {
		for _, form := range []string{
			string(secret), hex.EncodeToString(secret), strings.ToUpper(hex.EncodeToString(secret)),
			strings.Trim(fmt.Sprint(secret), "[]"), strings.TrimSuffix(secret1, "="),
		} {
			if strings.Contains(out.String(), form) {
				t.Errorf("the %s is printed", name)
			}
		}
	}
}

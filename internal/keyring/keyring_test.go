package keyring

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

// SHA-256 of "sendcode test key 1" and 2.
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

// The vectors were computed by another implementation of HKDF. A change here kills every live code and makes
// every stored recipient unreadable.
func TestSubkeyVectors(t *testing.T) {
	r := ring(t, "a:"+secret1+",b:"+secret2)
	for _, c := range []struct{ id, label, want string }{
		{"a", "code", "5677c95a633ee18729c37168c4aaf45b5d5e0d516b59a9f6112de34a3b671f27"},
		{"a", "recipient", "dcfbf16ca04e2f1bd8e4766a20786e7a002418c985c345981f2b0de2ba50d444"},
		{"b", "code", "a4270222e0821326006f4a032bca55be133f8de7725c62f0f1c1101caab235d8"},
	} {
		got, err := r.Subkey(c.id, c.label)
		if err != nil || hex.EncodeToString(got) != c.want {
			t.Errorf("%s %s: %x, %v", c.id, c.label, got, err)
		}
	}
	for _, c := range []struct{ id, want string }{
		{"a", "3417f70b59fed683fa97f5ccecb3fad92b7cf5985c1379e06d7a9d163773bff5"},
		{"b", "cb664e039ecb4c6e5d6dd48dce9c429584ec6de0709140f1a077e86276f76702"},
	} {
		if got, _ := r.derive(derivation{c.id, "seal", "code"}); hex.EncodeToString(got.key) != c.want {
			t.Errorf("sealing key of %s: %x", c.id, got)
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
	old := ring(t, "a:"+secret1)
	both := ring(t, "b:"+secret2+",a:"+secret1)
	only := ring(t, "b:"+secret2)
	if old.CurrentID() != "a" || both.CurrentID() != "b" {
		t.Errorf("current keys %q and %q", old.CurrentID(), both.CurrentID())
	}
	before, _ := old.Subkey("a", "code")
	after, err := both.Subkey("a", "code")
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the old key changed under rotation: %v", err)
	}
	sealed, err := old.Seal("recipient", []byte("ana"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := both.Open("recipient", sealed, nil); err != nil || string(got) != "ana" {
		t.Errorf("after rotation: %q, %v", got, err)
	}
	if _, err := only.Open("recipient", sealed, nil); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("after removal: %v, want ErrUnknownKey", err)
	}
	fresh, _ := both.Seal("recipient", []byte("ben"), nil)
	if got, err := only.Open("recipient", fresh, nil); err != nil || string(got) != "ben" {
		t.Errorf("new data is not under the new key: %q, %v", got, err)
	}
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
	if !strings.Contains(out.String(), "keyring(1 redacted)") {
		t.Error("the redacted form is not printed")
	}
	raw, _ := Decode(secret1)
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

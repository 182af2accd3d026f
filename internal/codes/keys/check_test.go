package keys

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"

	"sendcode/internal/store"
)

// indexCheckVector is HMAC-SHA256 of "sendcode key check v1\x00" with a key of 32 bytes 0x01,
// computed by another program.
const indexCheckVector = "fe1b53a9da4ef9b54fd448be7717c18a53e1acf86e4de7a57045e6d0fffe9f9e"

func vault(t *testing.T, index byte, entries string) Vault {
	return Vault{IndexKey: bytes.Repeat([]byte{index}, 32), Ring: ring(t, entries)}
}

// A check value shows whether two processes have the same key, at any place in the ring. It does
// not equal the key's sub-key of codes, nor the key from which sub-keys are derived.
func TestKeyCheckValues(t *testing.T) {
	a := vault(t, 1, "a:"+secret1+",b:"+secret2).KeyCheckValues()
	for name, c := range map[string]struct {
		of      store.KeyCheckValues
		differs []string
	}{
		"turned round":      {vault(t, 1, "b:"+secret2+",a:"+secret1).KeyCheckValues(), nil},
		"without b":         {vault(t, 1, "a:"+secret1).KeyCheckValues(), nil},
		"another index key": {vault(t, 2, "a:"+secret1).KeyCheckValues(), []string{IndexKeyCheckName}},
		"exchanged":         {vault(t, 1, "a:"+secret2+",b:"+secret1).KeyCheckValues(), []string{"key a", "key b"}},
		"all others":        {vault(t, 2, "a:"+secret2).KeyCheckValues(), []string{IndexKeyCheckName, "key a"}},
	} {
		if got := c.of.Differing(a); !slices.Equal(got, c.differs) {
			t.Errorf("%s: %q differ, want %q", name, got, c.differs)
		}
	}
	r := ring(t, "a:"+secret1)
	code, _ := r.Subkey("a", codeLabel)
	if v := a["key a"]; len(v) != 32 || len(a[IndexKeyCheckName]) != 32 || bytes.Equal(v, code) || bytes.Equal(v, r.content().keys[0].prk) {
		t.Errorf("the values are %x", a)
	}
	if got := hex.EncodeToString(a[IndexKeyCheckName]); got != indexCheckVector {
		t.Errorf("the value of the index key is %s: databases have another one", got)
	}
	if len(Vault{Ring: &Ring{}}.KeyCheckValues()) != 0 {
		t.Error("a value without a key")
	}
}

func TestMissingKeys(t *testing.T) {
	checks := vault(t, 1, "b:"+secret2+",a:"+secret1).KeyCheckValues()
	for entries, want := range map[string][]string{
		"a:" + secret1: {"b"}, "c:" + secret1: {"a", "b"},
		"b:" + secret2 + ",a:" + secret1: nil,
	} {
		if got := ring(t, entries).MissingKeys(checks); !slices.Equal(got, want) {
			t.Errorf("lacks %q, want %q", got, want)
		}
	}
}

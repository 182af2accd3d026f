package keys

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
)

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func TestParseAccepts(t *testing.T) {
	raw, _ := DecodeKey(secret1)
	first, _ := ring(t, "k1:"+secret1).Subkey("k1", "code")
	for name, value := range map[string]string{
		"one":           "k1:" + secret1,
		"two":           "k1:" + secret1 + ",k2:" + secret2,
		"spaces, lines": "  k1:" + secret1 + " ,\n k2:" + secret2 + "\n",
		"unpadded":      "k1:" + strings.TrimRight(secret1, "="),
		"URL alphabet":  "k1:" + base64.RawURLEncoding.EncodeToString(raw),
		"longest id":    "k1:" + secret1 + ",ABCxyz0123456_-9:" + secret2,
		"64 bytes":      "k1:" + b64(append(raw, []byte("\x01another32bytesthatarenotthesame\x02")...)),
	} {
		r, err := Parse(value)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if key, _ := r.Subkey("k1", "code"); r.CurrentID() != "k1" || name != "64 bytes" && string(key) != string(first) {
			t.Errorf("%s: current %q, or another key", name, r.CurrentID())
		}
	}
}

func TestParseRefuses(t *testing.T) {
	raw, _ := DecodeKey(secret1)
	var count, few []byte
	for i := range 64 {
		count, few = append(count, byte(i+128)), append(few, 128+raw[i%32]>>(i/32)%11)
	}
	twoByTwo := append(bytes.Repeat(raw[:16], 2), raw[0])
	for name, c := range map[string]struct{ value, want string }{
		"empty":                 {"", "no key"},
		"trailing comma":        {"k1:" + secret1 + ",", "entry 2: empty"},
		"no colon":              {secret1, "entry 1: no colon"},
		"swapped":               {secret1 + ":k1", "entry 1: the id"},
		"id with an accent":     {"é:" + secret1, "entry 1: the id"},
		"space after the colon": {"k1: " + secret1, "entry 1: the key is not base64"},
		"no key":                {"k1:", "entry 1: there is no key"},
		"only padding":          {"k1:====", "entry 1: the key has 0 bytes"},
		"not base64":            {"k1:" + secret1[:20] + "!" + secret1[21:], "entry 1: the key is not base64"},
		"line break inside":     {"k1:" + secret1[:20] + "\n" + secret1[20:], "entry 1: the key is not base64"},
		"loose bits":            {"k1:" + secret1[:42] + "J=", "entry 1: the key is not base64"},
		"31 bytes":              {"k1:" + b64(raw[:31]), "entry 1: the key has 31 bytes, at least 32"},
		"duplicate id":          {"k1:" + secret1 + ",k1:" + secret2, "entry 2: has the same id as entry 1"},
		"duplicate key":         {"k1:" + secret1 + ",k2:" + strings.TrimRight(secret1, "="), "entry 2: has the same key as entry 1"},
		"zeros":                 {"k1:" + b64(make([]byte, 32)), "repeating pattern"},
		"counting":              {"k1:" + b64(count), "repeating pattern"},
		"twice 16 and one":      {"k1:" + b64(twoByTwo), "repeating pattern"},
		"passphrase":            {"k1:" + b64([]byte("correct horse battery staple 12345")), "text, not random"},
		"hex encoded again":     {"k1:" + b64([]byte(hex.EncodeToString(raw)+"\n")), "text, not random"},
		"words for base64":      {"k1:ReplaceThisWith32RandomBytesInBase64PleaseOK", "text, not random"},
		"upper-case words":      {"k1:THISKEYISONLYFORTHEDOCUMENTATIONDONOTUSEITOK", "text, not random"},
		"of NIST":               {"k1:YD3rEBXKcb4rc67whX13gR81LAc7YQjXLZgQowkU3/Q=", "published example"},
		"few bytes":             {"k1:" + b64(few), "too few different"},
		"two faults": {
			"k1:" + b64(raw[:5]) + ",é:" + secret2,
			"entry 1: the key has 5 bytes, at least 32 are needed\nentry 2: the id",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Parse(c.value)
			if err == nil || r != nil {
				t.Fatalf("accepted: %v", r)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want %q", err, c.want)
			}
			if leaks(err.Error(), c.value) {
				t.Errorf("the error repeats the value: %q", err)
			}
		})
	}
}

// leaks reports whether an error's text contains five consecutive characters of the value that are
// not in the words of every error.
func leaks(text, value string) bool {
	for i := range len(value) - 5 {
		part := value[i : i+5]
		if strings.Contains(text, part) &&
			!strings.Contains("make one with `openssl rand -base64 32` id:base64 random key", part) {
			return true
		}
	}
	return false
}

func TestGenerate(t *testing.T) {
	seen := map[string]bool{}
	for range 100 { // an ID has four random bytes, so two of 100 are alike once in a million runs
		text := GenerateEntry()
		r := ring(t, text)
		id, encoded, _ := strings.Cut(text, ":")
		secret, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(secret) != minKeyLength || r.CurrentID() != id {
			t.Errorf("entry of %d bytes, id %q: %v", len(secret), id, err)
		}
		if seen[id] || seen[encoded] {
			t.Error("an id or a key came twice")
		}
		seen[id], seen[encoded] = true, true
	}
}

// The weakness checks must not refuse keys of a random source.
func TestStrengthLetsRandomKeysPass(t *testing.T) {
	random := rand.NewChaCha8([32]byte{}) // always the same keys; about one of ten million random keys is refused
	for range 20_000 {
		secret := make([]byte, minKeyLength)
		_, _ = random.Read(secret)
		if err := checkStrength(b64(secret), secret); err != nil {
			t.Fatalf("a random key is refused: %v", err)
		}
	}
}

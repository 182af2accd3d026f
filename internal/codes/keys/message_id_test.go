package keys

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// The vector was computed by another program. Mails on their way have it: a change here loses their
// bounces.
func TestMessageID(t *testing.T) {
	send := uuid.MustParse("0198c1d2-7a54-7a3e-8a4f-0123456789ab")
	want := send.String() + ".79f9007d10eb83dac6c2"
	old, rotated := Vault{Ring: ring(t, "a:"+secret1)}, Vault{Ring: ring(t, "b:"+secret2+",a:"+secret1)}
	for name, v := range map[string]Vault{"one key": old, "after a rotation": rotated} {
		got, err := v.MessageID(send, "a")
		of, ok := v.SendOfMessageID(strings.ToUpper(want))
		if err != nil || got != want || !ok || of != send {
			t.Errorf("%s: %s, %v; it is of %v, %v", name, got, err, of, ok)
		}
	}
	fresh, _ := rotated.MessageID(send, "b")
	for name, forged := range map[string]string{
		"the ID alone": send.String(), "no HMAC": send.String() + ".", "another HMAC": strings.Replace(want, ".79f", ".09f", 1),
		"a shorter one": want[:len(want)-1], "a longer one": want + "0", "another send": strings.Replace(want, "89ab", "89ac", 1),
		"a key that is not on the ring": fresh, "braces": "{" + want + "}", "nothing": "", "no ID": "ana." + want[37:],
	} {
		if of, ok := old.SendOfMessageID(forged); ok || of != uuid.Nil {
			t.Errorf("%s: it is of %v", name, of)
		}
	}
	if _, err := old.MessageID(send, "b"); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("%v, want ErrUnknownKey", err)
	}
}

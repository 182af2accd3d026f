package keys

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// Other programs computed these vectors. Mails on their way have such IDs and tokens, so after a
// change here, their bounces and links would no longer work.
func TestMailTokens(t *testing.T) {
	send := uuid.MustParse("0198c1d2-7a54-7a3e-8a4f-0123456789ab")
	wantID, wantToken := send.String()+".79f9007d10eb83dac6c2", "AZjB0npUej6KTwEjRWeJq7QPSqyOk7SSWAAhl06fR_8"
	old, rotated := Vault{Ring: ring(t, "a:"+secret1)}, Vault{Ring: ring(t, "b:"+secret2+",a:"+secret1)}
	for name, v := range map[string]Vault{"one key": old, "after a rotation": rotated} {
		id, token, err := v.MailTokens(send, "a")
		of, ok := v.SendOfMessageID(strings.ToUpper(wantID))
		reported, ok2 := v.SendOfNotMeToken(wantToken)
		if err != nil || id != wantID || token != wantToken || !ok || of != send || !ok2 || reported != send {
			t.Errorf("%s: %s, %s, %v; they are of %v, %v", name, id, token, err, of, reported)
		}
	}
	freshID, freshToken, _ := rotated.MailTokens(send, "b")
	for name, forged := range map[string]string{
		"the ID alone": send.String(), "no HMAC": send.String() + ".", "another HMAC": strings.Replace(wantID, ".79f", ".09f", 1),
		"a shorter one": wantID[:len(wantID)-1], "a longer one": wantID + "0", "another send": strings.Replace(wantID, "89ab", "89ac", 1),
		"a key that is not on the ring": freshID, "braces": "{" + wantID + "}", "nothing": "", "no ID": "ana." + wantID[37:],
		"a shorter token": wantToken[:42], "a longer token": wantToken + "A", "another case": strings.ToLower(wantToken),
		"another send's token": "B" + wantToken[1:], "a token of a key that is not on the ring": freshToken,
		"another HMAC of a token": wantToken[:30] + "AAAA" + wantToken[34:], "padded": wantToken + "=",
	} {
		of, ok := old.SendOfMessageID(forged)
		reported, ok2 := old.SendOfNotMeToken(forged)
		if ok || ok2 || of != uuid.Nil || reported != uuid.Nil {
			t.Errorf("%s: it is of %v, %v", name, of, reported)
		}
	}
	if _, _, err := old.MailTokens(send, "b"); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("%v, want ErrUnknownKey", err)
	}
}

package api

import (
	"crypto/sha256"
	"testing"
	"time"

	"sendcode/internal/codes/code"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

func TestKeys(t *testing.T) {
	keys := Keys{
		{App: "shop", Kind: verification.BackEnd, SHA256: sha256.Sum256([]byte("sk_one"))},
		{App: "shop", Kind: verification.Browser, SHA256: sha256.Sum256([]byte("pk_two"))},
	}
	for presented, app := range map[string]string{"sk_one": "shop", "pk_two": "shop", "sk_on": "", "": "",
		"sk_one ": ""} {
		if k := keys.keyFor(presented); (k != nil) != (app != "") || k != nil && k.App != app {
			t.Errorf("keyFor(%q) = %v", presented, k)
		}
	}
}

func TestBrowsersSeeNoReasons(t *testing.T) {
	a := verification.Answer{View: verification.View{ID: "v",
		Send: verification.SendView{Status: store.Failed, Reason: "rejected"}}}
	if got := toVerificationJSON(a, verification.Browser); got.Send.Reason != "" || got.Send.Status != store.Failed {
		t.Errorf("browser: %+v", got.Send)
	}
	if got := toVerificationJSON(a, verification.BackEnd); got.Send.Reason != "rejected" {
		t.Errorf("back end: %+v", got.Send)
	}
}

func TestLifeIsNeverPromisedTooLong(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for left, want := range map[time.Duration]int{10 * time.Minute: 600, 1999 * time.Millisecond: 1,
		999 * time.Millisecond: 0, -time.Second: 0} {
		v := verification.View{Now: now, ExpiresAt: now.Add(left),
			CodeShape: code.Shape{Alphabet: code.Unambiguous, Length: 8}}
		got := toVerificationJSON(verification.Answer{View: v}, verification.Browser)
		if got.ExpiresIn != want || got.CodeFormat == nil || *got.CodeFormat != (codeFormatJSON{8, code.Unambiguous}) {
			t.Errorf("%v left: %+v", left, got)
		}
	}
	if got := toVerificationJSON(verification.Answer{}, verification.Browser); got.CodeFormat != nil {
		t.Errorf("of an unknown code: %+v", got.CodeFormat)
	}
}

package api

import (
	"testing"
	"time"

	"sendcode/internal/codes/code"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

func TestVerificationJSONHidesReasonsFromBrowsers(t *testing.T) {
	a := verification.Answer{View: verification.View{Send: verification.SendView{Status: store.Failed, Reason: "rejected"}}}
	for kind, want := range map[verification.CallerKind]string{verification.Browser: "", verification.BackEnd: "rejected"} {
		servertest.Same(t, "the reason", toVerificationJSON(a, kind).Send.Reason, want)
	}
}

func TestVerificationJSONRoundsLifeDown(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for left, want := range map[time.Duration]int{
		10 * time.Minute: 600, 1999 * time.Millisecond: 1,
		999 * time.Millisecond: 0, -time.Second: 0,
	} {
		v := verification.View{Now: now, ExpiresAt: now.Add(left), CodeFormat: code.Format{Alphabet: code.Unambiguous, Length: 8}}
		got := toVerificationJSON(verification.Answer{View: v}, verification.Browser)
		if got.ExpiresIn != want || got.CodeFormat == nil || *got.CodeFormat != (codeFormatJSON{8, code.Unambiguous}) {
			t.Errorf("%v left: %+v", left, got)
		}
	}
	if got := toVerificationJSON(verification.Answer{}, verification.Browser); got.CodeFormat != nil {
		t.Errorf("of an unknown code: %+v", got.CodeFormat)
	}
}

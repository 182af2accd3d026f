package verification

import (
	"cmp"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/message"
	"sendcode/internal/codes/code"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
)

// judge compares a typed code with a verification's; see store.CheckRequest.Judge.
type judge func(v store.Verification, counts bool) (store.Judgement, error)

// judgeOf returns the judge of a typed text. The text may be a whole message that contains the
// code. The judge returns fault.NotFound for a verification of another app. It also returns
// fault.NotFound if the caller is a browser and a back end opened the verification. Other errors of
// the judge: ErrCallerCode; *fault.InvalidError if the text has no code of the right characters and
// length; fault.Unavailable if the judge cannot derive the code or make the event.
func (s *checkService) judgeOf(c Caller, typed string) judge {
	return func(v store.Verification, counts bool) (j store.Judgement, err error) {
		switch {
		case !c.mayRead(v):
			return j, fault.NotFound
		case v.CallerChecks:
			return j, ErrCallerCode
		}
		format, _ := s.codeFormat(v)
		given, err := s.findCode(format, typed, v)
		if err != nil {
			return j, err
		}
		if key := s.checkKey(c); key != nil {
			caller := s.idempotencyKeyHash(checkKeyLabel, c)
			withCode := s.Vault.KeyedHash("check", string(caller[:]), v.ID, given)
			j.CheckKey = append(key, withCode[:]...)
		}
		if !counts {
			return j, nil
		}
		expected, err := s.expectedCode(v)
		if err != nil { // the key is no longer in the ring
			return j, fault.Unavailable.Wrap(err)
		}
		j.Right = code.Equal(given, expected)
		if j.Right || v.Attempts+1 >= v.MaxAttempts {
			j.Event, err = s.NewEvent(v, store.CheckEventTypes[j.Right])
		}
		return j, store.WrapUnavailable(err)
	}
}

// findCode returns the code that was typed, or the one in a pasted message. It looks first at what
// is left without the words that the message has beside the code: they may have a word that looks
// like a code, as the details "order 482913" or the title of an app do.
func (s *checkService) findCode(format code.Format, typed string, v store.Verification) (string, error) {
	set := s.Policy.Get()
	known := append(set.Purposes[v.Purpose].Titles.All(), v.Details, set.Apps[v.App].Title, v.App)
	if rest := message.WithoutTexts(typed, known...); rest != typed {
		if given, err := format.Find(rest); err == nil {
			return given, nil
		}
	}
	return format.Find(typed)
}

// checkKey returns the hash of the caller's Idempotency-Key for store.CheckRequest.Key, or nil if
// the caller gave no key. The hash does not depend on the kind of caller. So the database notices
// if another kind of caller uses the same key (KeyReused), and the check costs no attempt.
func (s *checkService) checkKey(c Caller) []byte {
	if c.IdempotencyKey == "" {
		return nil
	}
	key := s.Vault.KeyedHash(checkKeyLabel, c.App, c.IdempotencyKey)
	return key[:]
}

// expectedCode returns the right code for v. The code of a test recipient is in the configuration.
// Any other code is derived from v.
func (s *checkService) expectedCode(v store.Verification) (string, error) {
	if t, ok := s.testCodeOf(v); ok {
		return t.Code, nil
	}
	return s.Vault.DeriveCode(v)
}

// codeFormat returns the format of the right code for v; see expectedCode. The format is zero if a
// caller made the code. The result test is true if v belongs to a test recipient.
func (s *readService) codeFormat(v store.Verification) (format code.Format, test bool) {
	t, test := s.testCodeOf(v)
	switch {
	case v.CallerChecks:
		return format, test
	case test:
		return code.FormatOf(t.Code), true
	}
	return keys.CodeFormatOf(v), false
}

func (s *readService) testCodeOf(v store.Verification) (policy.TestCode, bool) {
	tests := s.Policy.Get().TestRecipients
	if len(tests) == 0 { // nearly always: then nothing is allocated
		return policy.TestCode{}, false
	}
	return tests.Of(s.Vault, v, cmp.Or(v.ApprovedAt, s.Now())) // an approval stays one of a test recipient
}

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

// judgeOf returns the judge of a typed text, which may be a whole message with the code in it.
// Errors of the judge: fault.NotFound if the caller may not read the verification (mayRead);
// ErrCallerCode; *fault.InvalidError if the text has no code of the right characters and length;
// fault.Unavailable if the code can't be derived or the event can't be made.
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
			j.Event, err = s.Events.NewEvent(v, store.CheckEventTypes[j.Right])
		}
		return j, store.WrapUnavailable(err)
	}
}

// findCode finds the code in a typed text or a pasted message. It looks first at the text without
// the words that our message has beside the code, because such a word may look like a code: the
// details "order 482913", or the title of an app.
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

// checkKey returns the hash of the caller's Idempotency-Key, or nil without a key. The kind of
// caller isn't part of the hash. So the database notices if another kind of caller uses the same
// key (KeyReused), and that check costs no attempt.
func (s *checkService) checkKey(c Caller) []byte {
	if c.IdempotencyKey == "" {
		return nil
	}
	key := s.Vault.KeyedHash(checkKeyLabel, c.App, c.IdempotencyKey)
	return key[:]
}

// The code of a test recipient is in the configuration. Any other code is derived from v.
func (s *checkService) expectedCode(v store.Verification) (string, error) {
	if t, ok := s.testCodeOf(v); ok {
		return t.Code, nil
	}
	return s.Vault.DeriveCode(v)
}

// codeFormat returns the format of v's code, or zero if a caller made the code. test is true if v
// belongs to a test recipient.
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
	if len(tests) == 0 { // nearly always; saves an allocation
		return policy.TestCode{}, false
	}
	return tests.Of(s.Vault, v, cmp.Or(v.ApprovedAt, s.Now())) // at the time of the approval, so that it doesn't change later
}

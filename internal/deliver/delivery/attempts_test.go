package delivery_test

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
)

// Each row has a step for each of three servers, and the result of Outcome after the steps.
func TestAttemptsOutcome(t *testing.T) {
	aside := errors.New("all are set aside")
	temporary := func(after time.Duration) *delivery.Error {
		return &delivery.Error{Class: delivery.Temporary, RetryAfter: after * time.Second}
	}
	elsewhere := &delivery.Error{Class: delivery.Rejected, Elsewhere: true}
	type step func(a *delivery.Attempts, server string) (goesOn bool)
	note := func(fail *delivery.Error) step {
		return func(a *delivery.Attempts, server string) bool { return a.Note(delivery.Result{Provider: server}, fail) }
	}
	fails := func(after time.Duration) step { return note(temporary(after)) }
	refuses, accepts := note(elsewhere), note(nil)
	rejects, unsure := note(&delivery.Error{Class: delivery.Rejected}), note(&delivery.Error{Class: delivery.Unknown})
	waits := func(after time.Duration) step {
		return func(a *delivery.Attempts, _ string) bool {
			a.Postpone(&delivery.Error{Class: delivery.Temporary, RetryAfter: after * time.Second, Err: delivery.ErrPace})
			return true
		}
	}
	skip := func(busy bool) step {
		return func(a *delivery.Attempts, _ string) bool { a.Skip(busy); return true }
	}
	isAside, isBusy := skip(false), skip(true)
	decline := func(class delivery.ErrorClass, err error) step {
		return func(a *delivery.Attempts, _ string) bool {
			a.Decline(&delivery.Error{Class: class, Err: err})
			return true
		}
	}
	over, price := decline(delivery.Rejected, errors.New("the cap is reached")), decline(delivery.Temporary, errors.New("no price is known"))

	const first, second, third = "first", "second", "third"
	type want struct {
		asked    int // how many steps were made; none follows a Note that returns false
		provider string
		class    delivery.ErrorClass // "" if the message is accepted
		after    time.Duration       // seconds
		err      string
	}
	const othersAside = "a server or carrier that may take the message is set aside or busy, and the others refuse it"
	for name, c := range map[string]struct {
		steps []step
		want  want
	}{
		"accepted":                              {[]step{accepts, fails(1), fails(1)}, want{asked: 1, provider: first}},
		"accepted by the last":                  {[]step{fails(9), refuses, accepts}, want{asked: 3, provider: third}},
		"rejected for good":                     {[]step{fails(9), rejects, accepts}, want{2, second, delivery.Rejected, 0, ""}},
		"perhaps accepted":                      {[]step{unsure, accepts, accepts}, want{1, first, delivery.Unknown, 0, ""}},
		"the shortest wait":                     {[]step{fails(9), fails(3), fails(5)}, want{3, second, delivery.Temporary, 3, ""}},
		"the later of equal waits":              {[]step{fails(3), fails(3), fails(5)}, want{3, second, delivery.Temporary, 3, ""}},
		"a wait before refusals":                {[]step{fails(9), refuses, refuses}, want{3, first, delivery.Temporary, 9, ""}},
		"a wait after a refusal":                {[]step{refuses, fails(9), refuses}, want{3, second, delivery.Temporary, 9, ""}},
		"refused by all":                        {[]step{refuses, refuses, refuses}, want{3, third, delivery.Rejected, 0, ""}},
		"all are set aside":                     {[]step{isAside, isAside, isAside}, want{3, "", delivery.Temporary, 0, aside.Error()}},
		"busy":                                  {[]step{isBusy, isAside, isAside}, want{3, "", delivery.Temporary, 0, aside.Error()}},
		"one is set aside, and one fails":       {[]step{isAside, fails(9), refuses}, want{3, second, delivery.Temporary, 0, ""}},
		"one is set aside, and the rest refuse": {[]step{refuses, isAside, refuses}, want{3, "", delivery.Temporary, 0, othersAside}},
		"the shortest pace":                     {[]step{waits(9), waits(4), waits(6)}, want{3, "", delivery.Temporary, 4, delivery.ErrPace.Error()}},
		"a pace, and the rest refuse":           {[]step{refuses, waits(4), refuses}, want{3, "", delivery.Temporary, 4, delivery.ErrPace.Error()}},
		"a pace shorter than a wait":            {[]step{waits(4), fails(9), refuses}, want{3, "", delivery.Temporary, 4, delivery.ErrPace.Error()}},
		"a pace longer than a wait":             {[]step{waits(9), fails(4), refuses}, want{3, second, delivery.Temporary, 4, ""}},
		"a pace as long as a wait":              {[]step{waits(4), fails(4), refuses}, want{3, second, delivery.Temporary, 4, ""}},
		"a pace, and one is set aside":          {[]step{isAside, waits(4), refuses}, want{3, "", delivery.Temporary, 4, delivery.ErrPace.Error()}},
		"a pace, and one is busy":               {[]step{waits(4), isBusy, refuses}, want{3, "", delivery.Temporary, 0, delivery.ErrPace.Error()}},
		"a pace, a wait, and one is busy":       {[]step{waits(4), fails(9), isBusy}, want{3, second, delivery.Temporary, 0, ""}},
		"a pace, a wait, and one is set aside":  {[]step{waits(9), fails(4), isAside}, want{3, second, delivery.Temporary, 0, ""}},
		"declined":                              {[]step{over, over, over}, want{3, "", delivery.Rejected, 0, "the cap is reached"}},
		"declined for now, after for good":      {[]step{over, price, over}, want{3, "", delivery.Temporary, 0, "no price is known"}},
		"declined, and refused":                 {[]step{refuses, over, refuses}, want{3, third, delivery.Rejected, 0, "the cap is reached"}},
		"declined, and a wait":                  {[]step{over, fails(4), over}, want{3, second, delivery.Temporary, 4, ""}},
		"declined, and one is set aside":        {[]step{over, isAside, over}, want{3, "", delivery.Temporary, 0, aside.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			a, got := delivery.NewAttempts(nil, nil, aside), want{}
			for n, server := range []string{first, second, third} {
				got.asked = n + 1
				if !c.steps[n](a, server) {
					break
				}
			}
			result, fail := a.Outcome()
			got.provider = result.Provider
			if fail != nil {
				got.class, got.after = fail.Class, fail.RetryAfter/time.Second
				if fail.Err != nil {
					got.err = fail.Err.Error()
				}
			}
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

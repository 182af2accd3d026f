package verification

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sendcode/internal/proof"
	"sendcode/internal/recipient"
	"sendcode/internal/store/gate"
	"sendcode/quota"
)

const (
	plainAna  = "ana@gmail.com"
	taggedAna = "An.A+shop@gmail.com"
	otherAna  = "a.na+mail@gmail.com"
)

// folded is a rig at which tags and dots of gmail.com are one mailbox.
func folded(s *Settings) {
	s.Folding = recipient.Folding{"gmail.com": {PlusTags: true, Dots: true}}
}

func TestSpellingsShareOneQuota(t *testing.T) {
	inBubbleWith(t, folded, func(r *rig) {
		r.send(askFor(taggedAna))
		if to := r.post.all()[0].To; to != taggedAna {
			t.Errorf("the mail went to %s", to)
		}
		for _, to := range []string{plainAna, otherAna, taggedAna} {
			if a := r.refuse(askFor(to)); a.Quota.RetryAfter() != minute {
				t.Errorf("%s waits %v", to, a.Quota.RetryAfter())
			}
			told, err := r.svc.Quota(r.Context(), backEnd, "email", to, "")
			if err != nil || told.Quota.Allowed() {
				t.Errorf("%s: the look says that there is room: %v", to, err)
			}
			if h, err := r.svc.Hash("email", to); err != nil || h != emailOf(t, plainAna).Hash(r.settings.IndexKey) {
				t.Errorf("%s is searched as another: %v", to, err)
			}
		}
		r.send(askFor("ana@example.com"))                   // another domain
		r.limiter.set(quota.NewMemory(time.Now, "process")) // it has forgotten everything
		if a := r.refuse(askFor(plainAna)); a.Quota.RetryAfter() != minute {
			t.Errorf("the log counts another mailbox: %v", a.Quota.RetryAfter())
		}
	})
}

func TestASpellingIsResentToItselfAlone(t *testing.T) {
	inBubbleWith(t, folded, func(r *rig) {
		asked, ids := []string{taggedAna, plainAna, otherAna}, map[string]string{}
		for _, to := range asked {
			a := r.send(askFor(to))
			for other, id := range ids {
				if id == a.View.ID {
					t.Errorf("%s joined the verification of %s", to, other)
				}
			}
			ids[to] = a.View.ID
			waited(minute)
		}
		again := r.send(askFor("an.a+SHOP@gmail.com")) // as it was typed, but for case
		if again.View.ID != ids[taggedAna] || again.View.Send.Number != 2 {
			t.Errorf("its own holder opened another: %+v", again.View)
		}
		mails := r.post.all()
		for i, to := range append(asked, taggedAna) {
			if mails[i].To != to {
				t.Errorf("mail %d went to %s", i, mails[i].To)
			}
		}
		if codeIn(mails[3]) != codeIn(mails[0]) || codeIn(mails[1]) == codeIn(mails[0]) || codeIn(mails[2]) == codeIn(mails[0]) {
			t.Error("codes are not those of their spelling")
		}
	})
}

func TestAResendByIDKeepsToItsSpelling(t *testing.T) {
	inBubbleWith(t, folded, func(r *rig) {
		first := r.send(askFor(taggedAna))
		waited(minute)
		for _, caller := range []Caller{backEnd, browser} {
			for _, to := range []string{plainAna, otherAna} {
				var bad *InvalidError
				ask := Ask{Caller: caller, Channel: "email", To: to, Resend: first.View.ID}
				if _, err := r.svc.Send(r.Context(), ask); !errors.As(err, &bad) || bad.Field != "to" || bad.Reason != "mismatch" {
					t.Errorf("%s: %v", to, err)
				}
			}
		}
		for i, to := range []string{"", taggedAna} {
			again := r.send(Ask{Caller: browser, Channel: "email", To: to, Resend: first.View.ID})
			if again.View.ID != first.View.ID || r.post.all()[1+i].To != taggedAna {
				t.Errorf("%q: sent to %s", to, r.post.all()[1+i].To)
			}
			waited(minute)
		}
	})
}

func TestCheckNamedMeansTheSpelling(t *testing.T) {
	inBubbleWith(t, folded, func(r *rig) {
		tagged := r.send(askFor(taggedAna))
		waited(minute)
		plain := r.send(askFor(plainAna))
		named := func(to, code string) (Checked, error) {
			return r.svc.CheckNamed(r.Context(), backEnd, Named{Channel: "email", To: to}, code)
		}
		mails := r.post.all()
		if _, err := named(otherAna, codeIn(mails[0])); err != ErrNotFound {
			t.Errorf("a spelling that was never asked for: %v", err)
		}
		if c, err := named(plainAna, codeIn(mails[0])); err != nil || c.Valid || c.ID != plain.View.ID {
			t.Errorf("one spelling's code for another: %+v, %v", c, err)
		}
		if c, err := named(taggedAna, codeIn(mails[0])); err != nil || !c.Valid || c.ID != tagged.View.ID {
			t.Errorf("its own: %+v, %v", c, err)
		}
	})
}

// prover notes who was proven.
type prover struct{ subjects []string }

func (p *prover) Sign(f proof.Facts, _ time.Time) (string, error) {
	p.subjects = append(p.subjects, f.Recipient)
	return fmt.Sprint("proof ", len(p.subjects)), nil
}

// A proof is of the spelling, also of a code whose row was written under another folding.
func TestAProofIsOfTheSpelling(t *testing.T) {
	inBubbleWith(t, folded, func(r *rig) {
		p := &prover{}
		r.svc.Prover = p
		var want []string
		for i, to := range []string{plainAna, taggedAna, otherAna} {
			a := r.send(askFor(to))
			if to == otherAna {
				r.svc.Folding = nil
			}
			if c := r.check(a.View.ID, codeIn(r.post.all()[i])); !c.Valid || c.Proof == "" {
				t.Errorf("%s: %+v", to, c)
			}
			want = append(want, emailOf(t, to).Hash(r.settings.IndexKey).String())
			waited(minute)
		}
		if fmt.Sprint(p.subjects) != fmt.Sprint(want) {
			t.Errorf("proven %v, want %v", p.subjects, want)
		}
	})
}

func TestFailuresOfAllSpellingsCount(t *testing.T) {
	widened := func(s *Settings) { wide(s); folded(s) }
	inBubbleWith(t, widened, func(r *rig) {
		compared := 0
		var sent []Answer
		for i := range gate.FailureLimit {
			sent = append(sent, r.send(askFor(fmt.Sprintf("ana+%d@gmail.com", i))))
			waited(time.Microsecond)
		}
		for i, a := range sent {
			for range 3 {
				_, was, _ := r.try(backEnd, a.View.ID, wrongFor(codeIn(r.post.all()[i])))
				if was {
					compared++
				}
			}
		}
		if compared != gate.FailureLimit {
			t.Errorf("%d wrong codes were compared for one mailbox", compared)
		}
	})
}

// Whoever knows a test recipient's code must not prove other addresses with it.
func TestATestRecipientIsOneSpelling(t *testing.T) {
	inBubbleWith(t, func(s *Settings) {
		folded(s)
		s.TestRecipients = map[recipient.Hash]TestRecipient{
			emailOf(t, plainAna).Hash(s.IndexKey): {Code: "424242", Expires: time.Now().Add(time.Hour)},
		}
	}, func(r *rig) {
		a := r.send(askFor(taggedAna))
		if a.View.Test || r.get(a.View.ID).Test {
			t.Error("another spelling is a test recipient")
		}
		r.mails(1)
		if code := codeIn(r.post.all()[0]); code != "424242" {
			if c := r.check(a.View.ID, "424242"); c.Valid || c.Test {
				t.Errorf("the known code: %+v", c)
			}
			if c := r.check(a.View.ID, code); !c.Valid {
				t.Errorf("the code that was sent: %+v", c)
			}
		}
		waited(minute)
		b := r.send(askFor(plainAna))
		if c := r.check(b.View.ID, "424242"); !b.View.Test || !c.Valid {
			t.Errorf("the test recipient itself: %+v", c)
		}
		r.mails(1)
	})
}

// Folding is turned on: what was sent before stays checkable by ID; the simplest spelling keeps what it was counted for.
func TestFoldingIsTurnedOn(t *testing.T) {
	inBubble(t, func(r *rig) {
		tagged := r.send(askFor(taggedAna))
		r.send(askFor(plainAna)) // two recipients, still
		folded(&r.svc.Settings)
		r.refuse(askFor(plainAna))
		r.refuse(askFor(otherAna))
		waited(minute)
		if again := r.send(Ask{Caller: browser, Resend: tagged.View.ID}); again.View.ID == tagged.View.ID || r.post.all()[2].To != taggedAna {
			t.Errorf("%+v", again.View)
		}
		if c := r.check(tagged.View.ID, codeIn(r.post.all()[0])); !c.Valid {
			t.Errorf("%+v", c)
		}
	})
}

package rig

import (
	"context"
	"fmt"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// slowPost is a mail server that takes a while for each mail.
type SlowPost struct {
	Postbox
	Each time.Duration
}

func (p *SlowPost) Send(ctx context.Context, m delivery.Message) (delivery.Receipt, error) {
	r, err := p.Postbox.Send(ctx, m)
	timer := time.NewTimer(p.Each)
	defer timer.Stop()
	select {
	case <-timer.C:
		return r, err
	case <-ctx.Done():
		return r, &delivery.Error{Class: delivery.Temporary, Stage: "rcpt", Err: ctx.Err()}
	}
}

func Nth(n int) string { return fmt.Sprintf("person-%d@example.com", n) }

// crowd asks for n codes at once; every answer comes before a mail is through, and says queued or sending.
func (r *Rig) Crowd(first, n int) []string {
	r.Helper()
	began := time.Now()
	ids := make([]string, n)
	for i := range ids {
		a, err := r.Svc.Send(r.Context(), AskFor(Nth(first+i)))
		if err != nil || !a.Admitted {
			r.Fatalf("%d: %v", i, err)
		}
		if s := a.View.Send.Status; s != store.Sending && s != store.Queued {
			r.Fatalf("%d: %s", i, s)
		}
		ids[i] = a.View.ID
	}
	if took := time.Since(began); took != 0 {
		r.Errorf("the answers took %v", took)
	}
	return ids
}

// standing is how many sends are held in memory, and whether some wait in the log for want of room.
func (r *Rig) Standing() (held int, behind bool) {
	return r.Svc.Queue.Held(recipient.Email)
}

// persons are those whom mails were for, in the order of the mails; each of the first n has one.
func (r *Rig) Persons(p *SlowPost, n int) []int {
	r.Helper()
	var order []int
	seen := map[int]bool{}
	for _, m := range p.All() {
		var who int
		if _, err := fmt.Sscanf(m.To, "person-%d@", &who); err != nil || seen[who] {
			r.Fatalf("an unexpected mail, or a second one: %v", err)
		}
		seen[who] = true
		order = append(order, who)
	}
	if len(order) != n {
		r.Errorf("%d mails for %d sends", len(order), n)
	}
	return order
}

package simulate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

// webhooks checks that each outcome was sent as an event at least once.
func (l *ledger) webhooks() {
	told := map[string]bool{}
	for _, body := range l.hooks {
		var e struct {
			Type string
			Data struct {
				VerificationID string `json:"verification_id"`
				SendID         string `json:"send_id"`
			}
		}
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			l.broke("webhooks", "an event is not JSON: %s", body)
		}
		told[e.Type+" "+cmp.Or(e.Data.SendID, e.Data.VerificationID)] = true
	}
	waiting, err := l.log.AppEvents(l.Context(), store.AppEventFilter{State: store.EventPending, Limit: 200})
	if err != nil {
		l.Fatal(err)
	}
	pending := map[uuid.UUID]bool{} // it failed so often that its next attempt is hours away
	for _, e := range waiting {
		pending[e.SendID] = e.Attempt > 3
	}
	for _, row := range l.sends {
		if key := fmt.Sprintf("send.%s %s", row.Status, row.ID); !row.Status.InFlight() && !told[key] && !pending[row.ID] && row.Reason != store.ReasonErased {
			l.broke("webhooks", "nothing was told of %s", key)
		}
	}
	for id, v := range l.verification {
		if !v.ApprovedAt.IsZero() && !told["verification.approved "+id] && !pending[uuid.Nil] {
			l.broke("webhooks", "nothing was told of the approval of %s", id)
		}
	}
}

// erased checks that no row of before an erasure has the person's address.
func (l *ledger) erased() {
	for p, acts := range l.erase {
		for _, a := range acts {
			if !a.done {
				continue
			}
			for _, row := range l.sends {
				v := l.verification[row.VerificationID]
				if l.of[row.Recipient] != p || !row.LoggedAt.Before(a.began) {
					continue
				}
				if row.To != store.Erased || v.CreatedAt.Before(a.began) && (len(v.Sealed) > 0 || v.To != store.Erased) {
					l.broke("erased", "person %d was erased at %s, and %s still tells of the address", p.index, clock(a.ended.Sub(l.begin)), row.ID)
				}
			}
		}
	}
}

// secrets returns what must be nowhere: addresses, and codes of letters, since six digits occur in any number.
func (l *ledger) secrets() (secrets []string) {
	for _, m := range l.mails {
		if strings.ContainsAny(m.code, "BCDFGHJKLMNPQRSTVWXZ") {
			secrets = append(secrets, m.code)
		}
	}
	for _, p := range l.people {
		secrets = append(secrets, strings.TrimPrefix(strings.TrimSuffix(p.to, "@example.com"), "+49"))
	}
	return secrets
}

// sinks is promise 5: no code and no address in a log line, an answer or an event.
func (l *ledger) sinks() {
	secrets := l.secrets()
	for name, text := range map[string]string{"log": l.logged.String(), "answers": l.answers.String(), "webhooks": l.posted.String()} {
		for _, s := range secrets {
			if strings.Contains(text, s) {
				l.broke("no code and no address in any sink", "the %s have %q", name, s)
			}
		}
	}
}

// image checks that the log's file would have no code and no address. It checks one world in ten.
func (l *ledger) image() {
	if l.plan.Seed%10 != 0 {
		return
	}
	image, err := l.log.Image()
	if err != nil {
		l.Fatal(err)
	}
	for _, s := range l.secrets() {
		if bytes.Contains(image, []byte(s)) {
			l.broke("no code and no address in any sink", "the log has %q", s)
		}
	}
	l.count("log searched for codes")
}

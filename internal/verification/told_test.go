package verification

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
)

func (r *rig) hear(want Hearing, t Told) {
	r.Helper()
	t.Provider = "postmark"
	got, err := r.svc.Hear(r.Context(), t)
	if err != nil || got != want {
		r.Errorf("%s %s: %q, %v; wanted %q", t.Kind, t.Detail, got, err, want)
	}
}

// toldOf sends to somebody and gives the send.
func (r *rig) toldOf(to string) uuid.UUID {
	r.Helper()
	return uuid.MustParse(r.send(askFor(to)).View.Send.ID)
}

// A bounce that comes later costs and frees nothing; what it says decides whether the recipient is suppressed.
func TestWhatAProviderTells(t *testing.T) {
	inBubbleWith(t, barring, func(r *rig) {
		for to, c := range map[string]struct {
			told Told
			want store.Cause
		}{
			"a@example.com":    {Told{Kind: store.ProviderDelivered}, ""},
			"b@example.com":    {Told{Kind: store.ProviderBounced}, ""},
			"c@example.com":    {Told{Kind: store.ProviderBounced, Gone: true}, store.HardBounce},
			"d@example.com":    {Told{Kind: store.ProviderBounced, Detail: "550 5.1.1", Enhanced: "5.1.1"}, store.HardBounce},
			"e@example.com":    {Told{Kind: store.ProviderBounced, Gone: true, Detail: "550 5.7.1", Enhanced: "5.7.1"}, ""},
			"k@example.com":    {Told{Kind: store.ProviderBounced, Gone: true, Enhanced: "4.4.7"}, ""},
			"f@example.com":    {Told{Kind: store.ProviderBounced, Gone: true, Detail: "550 5.1.1", Enhanced: "5.1.1"}, store.HardBounce},
			"g@example.com":    {Told{Kind: store.ProviderBounced, Enhanced: "5.2.2"}, ""},
			"h@example.com":    {Told{Kind: store.ProviderComplained}, store.Complaint},
			"i@example.com":    {Told{Kind: store.ProviderOptedOut}, store.OptOut},
			"j@simulator.test": {Told{Kind: store.ProviderComplained}, ""},
		} {
			c.told.Send = r.toldOf(to)
			before := r.rows()[0]
			r.hear(Recorded, c.told)
			r.hear(Repeated, c.told)
			story, err := r.log.Story(r.Context(), c.told.Send)
			if err != nil || len(story.Events) != 1 || story.Events[0].Provider != "postmark" || story.Events[0].Kind != c.told.Kind {
				t.Fatalf("%s: %+v, %v", to, story.Events, err)
			}
			if after := story.Send; after.Status != store.Sent || !after.Counts || after.RefundDue || after.Attempt != before.Attempt {
				t.Errorf("%s: %+v", to, after)
			}
			if c.want == "" {
				if len(story.Suppressions) != 0 {
					t.Errorf("%s: %+v", to, story.Suppressions)
				}
				r.send(askFor(to))
				continue
			}
			if s := story.Suppressions; len(s) != 1 || s[0].Cause != c.want || s[0].Send != c.told.Send || s[0].Detail != c.told.Detail || s[0].Until.Sub(s[0].Since) != month {
				t.Errorf("%s: %+v", to, s)
			}
			ask := askFor(to)
			ask.Wait = time.Second
			if a := r.send(ask); a.View.Send.Reason != "suppressed" {
				t.Errorf("%s: %+v", to, a.View.Send)
			}
		}
	})
}

// An event is of the mail that was sent, and of who got it, or it is none.
func TestWhomAProviderMeans(t *testing.T) {
	inBubbleWith(t, func(s *Settings) { s.SuppressFor = month }, func(r *rig) {
		id := r.toldOf(ana)
		for _, to := range []string{"bo@example.com", "nobody", "ana.maria+x@example.com", "<>", "Ana <bo@example.com>"} {
			r.hear(OtherRecipient, Told{Send: id, Kind: store.ProviderComplained, To: to})
		}
		r.hear(UnknownMessage, Told{Kind: store.ProviderComplained})
		r.hear(UnknownMessage, Told{Send: uuid.UUID{1}, Kind: store.ProviderComplained, To: ana})
		r.refuse(askFor("ana.maria@EXAMPLE.com")) // written as a row of its own, which is no send
		waited(2 * time.Second)
		for _, row := range r.rows() {
			if row.Status == store.Refused {
				r.hear(UnknownMessage, Told{Send: row.ID, Kind: store.ProviderComplained, To: ana})
			}
		}
		if list := r.suppressions(); len(list) != 0 {
			t.Errorf("%+v", list)
		}
		r.hear(Recorded, Told{Send: id, Kind: store.ProviderDelivered, To: "Ana.Maria@example.COM"})
		r.hear(Recorded, Told{Send: id, Kind: store.ProviderComplained, To: "Ana <" + ana + ">"})
		if list := r.suppressions(); len(list) != 1 {
			t.Errorf("%+v", list)
		}
	})
}

// While the log is away nothing is taken for told: the provider is to tell it again.
func TestToldWhileTheLogIsAway(t *testing.T) {
	inBubbleWith(t, barring, func(r *rig) {
		id := r.toldOf(ana)
		var down atomic.Value
		r.log.SetFault(func(method string) sqlite.Fault {
			if method == down.Load() {
				return sqlite.Down
			}
			return sqlite.None
		})
		for _, method := range []string{"Story", "IngestProviderEvent"} {
			down.Store(method)
			if got, err := r.svc.Hear(context.Background(), Told{Send: id, Kind: store.ProviderComplained}); !errors.Is(err, ErrUnavailable) || got != "" {
				t.Errorf("%s: %q, %v", method, got, err)
			}
		}
		down.Store("")
		r.hear(Recorded, Told{Send: id, Kind: store.ProviderComplained})
	})
}

// A recipient whose address can't be read any more is neither compared nor suppressed; the event is kept.
func TestToldOfWhomNobodyKnows(t *testing.T) {
	inBubbleWith(t, barring, func(r *rig) {
		id := r.toldOf(ana)
		other := r.settings
		other.Ring = ringOf(t, "k9:"+newKey)
		stranger := New(other, Parts{Limiter: r.limiter, Log: r.log, Renderer: r.renderer, Sender: r.post, Logger: r.svc.Logger})
		got, err := stranger.Hear(r.Context(), Told{Send: id, Kind: store.ProviderComplained, To: "bo@example.com", Provider: "p"})
		if got != Recorded || err != nil || len(r.suppressions()) != 0 {
			t.Errorf("%q, %v, %+v", got, err, r.suppressions())
		}
	})
}

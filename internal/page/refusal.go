package page

import (
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/quota"
)

// rule is what a browser was told of the rule that refused it. Its limit is reached until the refusal ends.
type rule struct {
	Name   string        `json:"n"`
	Scope  quota.Scope   `json:"s"`
	Limit  int           `json:"l"`
	Window time.Duration `json:"w"`
	Per    quota.Period  `json:"p,omitempty"`
	Days   int           `json:"d,omitempty"`
}

func ruleOf(d quota.Decision) rule {
	r, _ := d.Blocking()
	return rule{r.Name, r.Scope, r.Limit, r.Window, r.Per, r.Days}
}

// decision is the refusal as it stands now.
func (r rule) decision(until, now time.Time) quota.Decision {
	left := until.Sub(now)
	of := quota.Rule{Name: r.Name, Scope: r.Scope, Limit: r.Limit, Window: r.Window, Per: r.Per, Days: r.Days}
	return quota.Decision{At: now, Rules: []quota.State{{Rule: of, Used: r.Limit, ResetAfter: left, RetryAfter: left}}}
}

// admitted answers a request, unless too many came from its network: then nothing is done, and the card says how long to wait.
func (u *Page) admitted(c echo.Context, answer func(*Page, echo.Context) error) error {
	if u.Requests == nil {
		return answer(u, c)
	}
	wait, ok := u.Requests.Admit(u.caller(c).IP)
	if ok {
		return answer(u, c)
	}
	words, s := textsOf(c.Request()), u.remembered(c)
	l := &look{Page: u, session: s, words: words, t: words.on(s.channel())}
	return u.draw(c, l, l.crowded(wait))
}

// crowded is drawn as a service that is away: looking again is all there is to do, and the script keeps another card meanwhile.
func (l *look) crowded(wait time.Duration) card {
	t := l.t
	k := &awayCard{Lead: fill(t.CrowdedLead, "d", t.lasting(time.Duration(quota.Seconds(wait))*time.Second)), Reload: true}
	k.Heading = t.Crowded
	k.Say = k.Heading + t.Stop + k.Lead
	k.Crowded = wait
	k.Again = l.button(&k.frame, t.TryAgain, wait, wait)
	k.Again.Spoken, k.Again.Reason = k.Again.Wait, k.Again.Now
	k.Rev = rev(k.kind(), "crowded")
	return k
}

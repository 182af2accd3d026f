package ui

import (
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/quota"
)

// admitted answers a request, unless too many came from its network: then nothing is done, and the card says how long to wait.
func (u *UI) admitted(c echo.Context, answer func(*UI, echo.Context) error) error {
	if u.Requests == nil {
		return answer(u, c)
	}
	wait, ok := u.Requests.Admit(u.caller(c).IP)
	if ok {
		return answer(u, c)
	}
	words, s := textsOf(c.Request()), u.remembered(c)
	l := &look{UI: u, session: s, words: words, t: words.on(s.channel())}
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

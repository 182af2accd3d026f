package ui

import (
	"time"

	"sendcode/quota"
)

// rule is what a browser was told of the rule that refused it. Its limit is reached until the refusal ends.
type rule struct {
	Name   string        `json:"n"`
	Scope  quota.Scope   `json:"s"`
	Limit  int           `json:"l"`
	Window time.Duration `json:"w"`
	Per    quota.Period  `json:"p,omitempty"`
}

func ruleOf(d quota.Decision) rule {
	r, _ := d.Blocking()
	return rule{r.Name, r.Scope, r.Limit, r.Window, r.Per}
}

// decision is the refusal as it stands now.
func (r rule) decision(until, now time.Time) quota.Decision {
	left := until.Sub(now)
	of := quota.Rule{Name: r.Name, Scope: r.Scope, Limit: r.Limit, Window: r.Window, Per: r.Per}
	return quota.Decision{At: now, Rules: []quota.State{{Rule: of, Used: r.Limit, ResetAfter: left, RetryAfter: left}}}
}

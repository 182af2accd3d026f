package console

import (
	"sendcode/internal/console/layout"
	"sendcode/internal/recipient"
	"sendcode/internal/texts"
)

// filterView is the form above the list as it was last sent.
type filterView struct {
	Recipient             string
	Last, Status, Channel []layout.Option
	Purpose, App          string
	BlockedBy, Reference  string
	Carrier, Country      string
	Domain, Support       string
	From, To              string
	Any                   bool // something is filtered
	More                  bool // by a field of the second row
}

func filterOf(q query, w texts.Words) filterView {
	get := q.given.Get
	v := filterView{
		Recipient: get("recipient"), Purpose: get("purpose"), App: get("app"), BlockedBy: get("blocked_by"),
		Reference: get("reference"), Carrier: q.filter.Provider, Country: q.filter.Country, Domain: q.filter.Domain, Support: get("support"),
		Last:    options(w, "filter.last", "filter.last", get("last"), "1h", "24h", "7d", "30d"),
		Channel: options(w, "filter.channel", "channel", get("channel"), string(recipient.Email), string(recipient.SMS)),
	}
	var names []string
	for _, s := range statuses {
		names = append(names, string(s))
	}
	v.Status = options(w, "filter.status", "status", get("status"), names...)
	// A field of type datetime-local takes nothing but this form, whatever the address has.
	const field = "2006-01-02T15:04:05"
	if get("from") != "" {
		v.From = q.filter.From.Format(field)
	}
	if get("to") != "" {
		v.To = q.filter.To.Format(field)
	}
	v.More = v.Purpose+v.App+v.BlockedBy+v.Reference+v.Carrier+v.Country+v.Domain+v.From+v.To != ""
	v.Any = v.More || v.Recipient+v.Support+get("last")+get("status")+get("channel") != ""
	return v
}

// options are the choices of one field, the first of which chooses nothing.
func options(w texts.Words, field, names, chosen string, values ...string) []layout.Option {
	all := []layout.Option{{Text: w.Get(field + ".any"), Chosen: chosen == ""}}
	for _, v := range values {
		all = append(all, layout.Option{Value: v, Text: w.Get(names + "." + v), Chosen: v == chosen})
	}
	return all
}

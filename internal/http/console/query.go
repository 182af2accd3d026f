package console

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
)

// listQuery is the parsed query of the list's URL: filters, a cursor and a limit.
type listQuery struct {
	filter store.Filter
	given  url.Values // the parameters, without empty ones
}

// These are the values of the filters status, outcome, channel and last.
var (
	statusChoices = []store.Status{
		store.Queued, store.Sending, store.Sent, store.Delivered, store.Undelivered, store.Failed,
		store.Unknown, store.Refused,
	}
	codeStateChoices = []store.CodeState{
		store.CodeEntered, store.CodeWaiting, store.CodeExpired, store.CodeUsedUp,
		store.CodeCanceled, store.CodeOfCaller,
	}
	channelChoices  = []recipient.Channel{recipient.Email, recipient.SMS}
	timeSpanChoices = []string{"1h", "24h", "7d", "30d"}
)

// filterParameter is a parameter of the list that selects rows.
type filterParameter struct {
	name         string
	parse        layout.ParseFunc
	valueAudited bool // whether the audit entry of an export has the value, not just the name; a value may name a person
	more         bool // the field of the parameter is in the second row of the form
}

// filterParameters returns all filters, which parse into f and last.
func filterParameters(f *store.Filter, last *string, zone *time.Location) []filterParameter {
	list := []filterParameter{
		{name: "from", parse: layout.TimeParameter(&f.From, zone), valueAudited: true, more: true},
		{name: "to", parse: layout.TimeParameter(&f.To, zone), valueAudited: true, more: true},
		{name: "last", parse: layout.OneOfParameter(last, timeSpanChoices...), valueAudited: true},
		{name: "status", parse: layout.OneOfParameter(&f.Status, statusChoices...), valueAudited: true},
		{name: "outcome", parse: layout.OneOfParameter(&f.Outcome, codeStateChoices...), valueAudited: true},
		{name: "channel", parse: layout.OneOfParameter(&f.Channel, channelChoices...), valueAudited: true},
		{name: "country", parse: countryParameter(&f.Country), valueAudited: true, more: true},
		{name: "app", parse: layout.ShortTextParameter(&f.App), more: true},
		{name: "purpose", parse: layout.ShortTextParameter(&f.Purpose), more: true},
		{name: "blocked_by", parse: layout.ShortTextParameter(&f.BlockedBy), more: true},
	}
	for _, c := range f.LabelColumns() {
		list = append(list, filterParameter{name: c.Name, parse: layout.ShortTextParameter(c.Field.(*string)), more: true})
	}
	return append(list, []filterParameter{
		{name: "carrier", parse: layout.ShortTextParameter(&f.Provider), more: true},
		{name: "domain", parse: domainParameter(&f.Domain), more: true},
		{name: "network", parse: networkParameter(&f.Network), more: true},
		{name: "request", parse: layout.ShortTextParameter(&f.Request), more: true},
		{name: "support", parse: supportReferenceParameter(&f.Support)},
		{name: "recipient", parse: layout.RecipientHashParser(&f.Recipient)},
	}...)
}

// knownFilters has all filters, for code that needs only their names and flags.
var knownFilters = filterParameters(&store.Filter{}, new(string), time.UTC)

// parseQuery parses a raw query. A time without a zone is in the reader's zone. In q.given all
// times have a zone, so that the URL means the same for other readers.
//
// If no index covers the query's filters and the query has no start time, parseQuery limits the
// time range. If the query has an end time, the range begins 24 h before the end. Otherwise
// parseQuery adds last=24h.
func parseQuery(raw string, now time.Time, zone *time.Location) (q listQuery, err error) {
	f := &q.filter
	f.Limit = layout.DefaultPageRows
	var last string
	known := layout.Parameters{
		"cursor": layout.CursorParameter(&f.Before), "newer": layout.CursorParameter(&f.After), "limit": layout.LimitParameter(&f.Limit),
	}
	for _, p := range filterParameters(f, &last, zone) {
		known[p.name] = p.parse
	}
	if q.given, err = known.Parse(raw); err != nil {
		return q, err
	}
	setTimesByRequestID(&q)
	if (f.Outcome != "" || f.Network+f.Request != "") && !q.given.Has("from") && last == "" && f.Recipient == nil &&
		f.Labels == (store.Labels{}) && f.Support == "" {
		// no index covers these filters, so the time range limits how many rows are read
		if f.To.IsZero() {
			last = "24h"
			q.given.Set("last", last)
		} else {
			f.From = f.To.Add(-layout.TimeSpans["24h"])
			q.given.Set("from", f.From.Format(time.RFC3339Nano))
		}
	}
	if last != "" && f.From.IsZero() {
		f.From = now.Add(-layout.TimeSpans[last])
	}
	for name, value := range map[string]string{
		"from": f.From.Format(time.RFC3339Nano), "to": f.To.Format(time.RFC3339Nano),
		"country": f.Country, "domain": f.Domain, "network": f.Network,
	} {
		if q.given.Has(name) {
			q.given.Set(name, value)
		}
	}
	if !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		return q, layout.ErrEndsBeforeBeginning
	}
	if f.Before != nil && f.After != nil {
		return q, layout.Invalid("newer", "invalid", "cursor", "Give only one cursor: cursor for older rows, or newer for newer ones.")
	}
	return q, nil
}

// The search for the sends of a request begins searchBeforeRequestTime before the time in the
// request's ID. It ends searchAfterRequestTime after that time. The range is needed because clocks
// differ.
const (
	searchBeforeRequestTime = time.Minute
	searchAfterRequestTime  = 2 * time.Minute
)

// setTimesByRequestID sets the time range of a query that has a request's ID but no times. It does
// so only if the ID is a UUID of version 7, which contains a time. Package logs makes such IDs.
func setTimesByRequestID(q *listQuery) {
	from, to, ok := timesByRequestID(q.filter.Request)
	if !ok || q.given.Has("from") || q.given.Has("to") || q.given.Has("last") {
		return
	}
	q.filter.From, q.filter.To = from, to
	q.given.Set("from", "")
	q.given.Set("to", "")
}

// timesByRequestID returns the time range in which to search for the sends of a request, around the
// time in the request's ID. ok is false if the ID contains no time.
func timesByRequestID(request string) (from, to time.Time, ok bool) {
	id, err := uuid.Parse(request)
	if err != nil || id.Version() != 7 {
		return from, to, false
	}
	at := time.Unix(id.Time().UnixTime()).UTC()
	return at.Add(-searchBeforeRequestTime), at.Add(searchAfterRequestTime), true
}

// sendsWithTimeFallback returns the rows that a filter selects. If the time range came from the
// request's ID and has no rows, sendsWithTimeFallback searches the last 24 h. Clients choose the
// IDs of requests, so an ID may contain a wrong time.
func (console *Console) sendsWithTimeFallback(ctx context.Context, f store.Filter) ([]store.SendOrRefusal, error) {
	rows, err := console.DB.Sends(ctx, f)
	from, to, ok := timesByRequestID(f.Request)
	if err != nil || len(rows) > 0 || !ok || !f.From.Equal(from) || !f.To.Equal(to) {
		return rows, err
	}
	f.From, f.To = console.Now().Add(-layout.TimeSpans["24h"]), time.Time{}
	return console.DB.Sends(ctx, f)
}

// hasLocalTimes reports whether the raw query has times without a zone.
func (q listQuery) hasLocalTimes(raw string) bool {
	values, _ := url.ParseQuery(raw)
	return slices.ContainsFunc([]string{"from", "to"}, func(name string) bool {
		_, err := time.Parse(time.RFC3339Nano, values.Get(name))
		return q.given.Has(name) && err != nil
	})
}

// networkParameter parses a network or an address. It replaces an address by the address's network.
func networkParameter(to *string) layout.ParseFunc {
	return layout.Parameter(to, func(text string) (string, bool) {
		if address, err := netip.ParseAddr(text); err == nil {
			return buckets.WideNetworkPrefix(address), true
		}
		network, err := netip.ParsePrefix(text)
		return network.Masked().String(), err == nil
	}, "network", "A network is written as 203.0.113.0/24, or as an address in it.")
}

func countryParameter(to *string) layout.ParseFunc {
	return layout.Parameter(to, func(text string) (string, bool) {
		country := strings.ToUpper(strings.TrimSpace(text))
		return country, recipient.KnownCountry(country)
	}, "country", "A country is that of a phone number, two letters as in DE, or 001 for numbers of none.")
}

func domainParameter(to *string) layout.ParseFunc {
	return layout.Parameter(to, func(text string) (string, bool) {
		domain, err := recipient.MaskedDomain(text)
		return domain, err == nil
	}, "domain", "A domain is what stands after the @ of a mail address.")
}

func supportReferenceParameter(to *string) layout.ParseFunc {
	return layout.Parameter(to, func(text string) (string, bool) { return text, store.IsSupportReference(text) },
		"support", "A support reference is written as S-7K3M-Q2XP.")
}

// filterView is the form above the list. It shows the parameters of the page's URL.
type filterView struct {
	url.Values
	w       texts.Words
	Mistake layout.FilterMistake
}

// mistakenFilters returns the form as it was filled in, with its mistake; ok is false if the error
// is not about a parameter.
func mistakenFilters(raw string, err error, w texts.Words) (v filterView, ok bool) {
	mistake, values, ok := layout.FilterMistakeOf(raw, err, w)
	v = filterView{values, w, mistake}
	if ok && !v.besideField() {
		values.Del(mistake.Field) // a choice that does not exist, or a field that the form hides
	}
	return v, ok
}

// besideField reports whether the mistake is shown beside its field, which is in the second row.
// Every other mistake is shown below the form.
func (v filterView) besideField() bool {
	return slices.ContainsFunc(knownFilters, func(p filterParameter) bool { return p.more && p.name == v.Mistake.Field })
}

// MistakeOf returns what is wrong with the field; "": nothing.
func (v filterView) MistakeOf(field string) string { return v.Mistake.Of(field) }

// MistakeBelow returns the mistake if it is shown below the form.
func (v filterView) MistakeBelow() layout.FilterMistake {
	if v.besideField() {
		return layout.FilterMistake{}
	}
	return v.Mistake
}

// Options returns the choices of a field: last, status, outcome or channel.
func (v filterView) Options(field string) []layout.FieldOption {
	title, chosen := "filter."+field, v.Get(field)
	switch field {
	case "status":
		return layout.FieldOptions(v.w, title, "status", store.Status(chosen), statusChoices...)
	case "outcome":
		return layout.FieldOptions(v.w, title, "outcome.code", store.CodeState(chosen), codeStateChoices...)
	case "channel":
		return layout.FieldOptions(v.w, title, "channel", recipient.Channel(chosen), channelChoices...)
	}
	return layout.FieldOptions(v.w, title, title, chosen, timeSpanChoices...)
}

// DateTimeLocal returns the parameter "from" or "to" in the form that a field of type
// datetime-local needs, in the reader's zone.
func (v filterView) DateTimeLocal(name string) string {
	at, err := time.Parse(time.RFC3339Nano, v.Get(name))
	if err != nil { // without a zone, as the field has sent it
		return v.Get(name)
	}
	return at.In(v.w.Zone()).Format("2006-01-02T15:04:05")
}

// SecondRowFilled reports whether a field of the second row is filled in.
func (v filterView) SecondRowFilled() bool {
	return slices.ContainsFunc(knownFilters, func(p filterParameter) bool { return p.more && v.Has(p.name) })
}

// Labels returns the names of the fields for labels.
func (v filterView) Labels() []string { return store.LabelNames() }

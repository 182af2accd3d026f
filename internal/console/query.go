package console

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"sendcode/internal/console/layout"
	"sendcode/internal/console/listing"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/texts"
)

// query is the parsed query of the list's URL: filters, a cursor and a limit.
type query struct {
	filter store.Filter
	given  url.Values // what was asked, empty parameters left out
	hints  hints      // of a search that found nothing
}

// statuses are all that a row can have.
var statuses = []store.Status{store.Queued, store.Sending, store.Sent, store.Delivered, store.Undelivered, store.Failed, store.Unknown,
	store.Refused}

// parseQuery parses a raw query. Times without a zone are in the reader's zone; given has them with their zone, so that the URL means the
// same for other readers.
func parseQuery(raw string, now time.Time, zone *time.Location) (q query, err error) {
	if q.filter, q.given, err = listing.Parse(raw, store.Filter{Limit: listing.DefaultLimit}, parameters, now.In(zone)); err != nil {
		return q, err
	}
	for name, at := range map[string]time.Time{"from": q.filter.From, "to": q.filter.To} {
		if q.given.Has(name) {
			q.given.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	if f := q.filter; f.Outcome != "" || f.Network != "" { // no index has them: a time bounds how many rows are looked at
		if !q.given.Has("from") && !q.given.Has("last") && f.Recipient == nil && f.Reference+f.Support == "" {
			q.given.Set("last", "24h")
			q.filter.From = now.Add(-listing.Spans["24h"])
		}
	}
	return q, q.checkRange()
}

// local reports whether the raw query has times without a zone.
func (q query) local(raw string) bool {
	values, _ := url.ParseQuery(raw)
	return slices.ContainsFunc([]string{"from", "to"}, func(name string) bool {
		_, err := time.Parse(time.RFC3339Nano, values.Get(name))
		return q.given.Has(name) && err != nil
	})
}

func (q query) checkRange() error {
	from, to := q.filter.From, q.filter.To
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return layout.Invalid("to", "invalid", "The end must be after the beginning.")
	}
	if q.filter.Before != nil && q.filter.After != nil {
		return layout.Invalid("newer", "invalid", "A list goes on from one cursor, either way.")
	}
	return nil
}

// parameters are those of the list of sends.
var parameters = listing.Parameters[store.Filter]{
	"recipient":  listing.Recipient(func(f *store.Filter) **recipient.Hash { return &f.Recipient }),
	"status":     setStatus,
	"channel":    setChannel,
	"purpose":    listing.Word(func(f *store.Filter) *string { return &f.Purpose }),
	"app":        listing.Word(func(f *store.Filter) *string { return &f.App }),
	"blocked_by": listing.Word(func(f *store.Filter) *string { return &f.BlockedBy }),
	"reference":  listing.Word(func(f *store.Filter) *string { return &f.Reference }),
	"carrier":    listing.Word(func(f *store.Filter) *string { return &f.Provider }),
	"country":    setCountry,
	"domain":     setDomain,
	"network":    setNetwork,
	"outcome":    setOutcome,
	"support":    setSupport,
	"from":       listing.Instant(func(f *store.Filter) *time.Time { return &f.From }),
	"to":         listing.Instant(func(f *store.Filter) *time.Time { return &f.To }),
	"last":       setLast,
	"cursor":     listing.Cursor(func(f *store.Filter) **store.Mark { return &f.Before }),
	"newer":      listing.Cursor(func(f *store.Filter) **store.Mark { return &f.After }),
	"limit":      listing.Limit(func(f *store.Filter) *int { return &f.Limit }),
}

func setStatus(f *store.Filter, value string, _ time.Time) string {
	f.Status = store.Status(value)
	if !slices.Contains(statuses, f.Status) {
		return "A status is queued, sending, sent, delivered, undelivered, failed, unknown or refused."
	}
	return ""
}

// outcomes are what can have become of a send's code.
var outcomes = []store.CodeState{store.CodeEntered, store.CodeWaiting, store.CodeExpired, store.CodeLocked, store.CodeCanceled}

func setOutcome(f *store.Filter, value string, _ time.Time) string {
	f.Outcome = store.CodeState(value)
	if !slices.Contains(outcomes, f.Outcome) {
		return "An outcome is entered, waiting, expired, locked or canceled."
	}
	return ""
}

// setNetwork parses a network as rows have it, or an address in it.
func setNetwork(f *store.Filter, value string, _ time.Time) string {
	network, err := netip.ParsePrefix(value)
	if address, err := netip.ParseAddr(value); err == nil {
		f.Network = policy.Network(address)
		return ""
	}
	if err != nil {
		return "A network is written as 203.0.113.0/24, or as an address in it."
	}
	f.Network = network.Masked().String()
	return ""
}

func setChannel(f *store.Filter, value string, _ time.Time) (problem string) {
	var err error
	if f.Channel, err = recipient.ParseChannel(value); err != nil {
		return "A channel is email or sms."
	}
	return ""
}

func setCountry(f *store.Filter, value string, _ time.Time) string {
	f.Country = strings.ToUpper(strings.TrimSpace(value))
	if !recipient.KnownCountry(f.Country) {
		return "A country is that of a phone number, two letters as in DE, or 001 for numbers of none."
	}
	return ""
}

func setDomain(f *store.Filter, value string, _ time.Time) (problem string) {
	var err error
	if f.Domain, err = recipient.MaskedDomain(value); err != nil {
		return "A domain is what stands after the @ of a mail address."
	}
	return ""
}

func setSupport(f *store.Filter, value string, _ time.Time) string {
	if f.Support = value; !store.IsSupportReference(value) {
		return "A support reference is written as S-7K3M-Q2XP."
	}
	return ""
}

// setLast sets From unless the address gives it: "from" comes before "last" in the order of names.
func setLast(f *store.Filter, value string, now time.Time) string {
	span, ok := listing.Spans[value]
	if !ok {
		return "This is 1h, 24h, 7d or 30d."
	}
	if f.From.IsZero() {
		f.From = now.Add(-span)
	}
	return ""
}

// filterView is the form above the list as it was last sent.
type filterView struct {
	Recipient             string
	Last, Status, Channel []layout.Option
	Outcome               []layout.Option
	Network               string
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
		Reference: get("reference"), Carrier: q.filter.Provider, Country: q.filter.Country, Domain: q.filter.Domain, Support: get("support"), Network: q.filter.Network,
		Last:    layout.Options(w, "filter.last", "filter.last", get("last"), "1h", "24h", "7d", "30d"),
		Channel: layout.Options(w, "filter.channel", "channel", get("channel"), string(recipient.Email), string(recipient.SMS)),
	}
	var names []string
	for _, s := range statuses {
		names = append(names, string(s))
	}
	v.Status = layout.Options(w, "filter.status", "status", get("status"), names...)
	names = nil
	for _, o := range outcomes {
		names = append(names, string(o))
	}
	v.Outcome = layout.Options(w, "filter.outcome", "outcome.code", get("outcome"), names...)
	// A field of type datetime-local takes nothing but this form, whatever the address has.
	const field = "2006-01-02T15:04:05"
	if get("from") != "" {
		v.From = q.filter.From.In(w.Zone()).Format(field)
	}
	if get("to") != "" {
		v.To = q.filter.To.In(w.Zone()).Format(field)
	}
	v.More = v.Purpose+v.App+v.BlockedBy+v.Reference+v.Carrier+v.Country+v.Domain+v.Network+v.From+v.To != ""
	v.Any = v.More || v.Recipient+v.Support+get("last")+get("status")+get("outcome")+get("channel") != ""
	return v
}

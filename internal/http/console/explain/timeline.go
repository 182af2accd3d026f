package explain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// TimelineEntry is one line of the time line on a send's page.
type TimelineEntry struct {
	At   texts.DisplayTime // zero: the time is not stored
	Tone Tone
	What texts.Sentence
	Link string // the page of a related send, in the last entry of that send; otherwise empty

	Future bool // this has not happened yet

	order time.Time // sorts the entries
}

// Timeline returns the events of a send and of its related sends, oldest first.
func Timeline(s store.SendDetails, w texts.Words) []TimelineEntry {
	var all []TimelineEntry
	for _, row := range relatedAndSelf(s) {
		entries := rowTimeline{Words: w, row: row, over: codeHasEnded(s)}.entries()
		if row.ID != s.Send.ID {
			entries[len(entries)-1].Link = SendPageAddress(row.ID)
		}
		all = append(all, entries...)
	}
	all = append(all, providerEventEntries(s, w)...)
	if s.Verification != nil {
		all = append(all, codeEntries(*s.Verification, s.Now, w)...)
	}
	slices.SortStableFunc(all, func(a, b TimelineEntry) int { return a.order.Compare(b.order) })
	return all
}

// relatedAndSelf returns the related sends and the send itself, oldest first.
func relatedAndSelf(s store.SendDetails) []store.SendOrRefusal {
	if slices.ContainsFunc(s.Related, func(r store.SendOrRefusal) bool { return r.ID == s.Send.ID }) {
		return s.Related
	}
	return append(slices.Clone(s.Related), s.Send)
}

// SendPageAddress returns the address of a send's page.
func SendPageAddress(id uuid.UUID) string { return "/admin/sends/" + id.String() }

// rowTimeline makes the entries of one row.
type rowTimeline struct {
	texts.Words
	row  store.SendOrRefusal
	over bool // its code has ended
}

// codeHasEnded reports whether the code of a send can no longer be entered. In that case, no
// message with the code is sent any more.
func codeHasEnded(s store.SendDetails) bool {
	return s.Verification != nil && verification.StateOf(*s.Verification, s.Now) != verification.Pending
}

func (t rowTimeline) entries() []TimelineEntry {
	if t.row.Status == store.Refused {
		key := texts.PluralKey("line.refused", t.row.Count)
		if policy.IsUnservedRefusal(t.row) {
			key = texts.PluralKey("line.unserved", t.row.Count)
		}
		return []TimelineEntry{t.datedEntry(t.row.LoggedAt, Warn, key)}
	}
	request := "line.asked"
	if t.row.Number > 1 {
		request = "line.again"
	}
	all := []TimelineEntry{t.datedEntry(t.row.LoggedAt, Neutral, request), t.datedEntry(t.row.LoggedAt, Neutral, "line.admitted")}
	if t.row.InDoubt {
		all = append(all, t.undatedEntry(t.row.LoggedAt, Warn, "line.doubt"))
	}
	return append(all, t.outcomeEntry())
}

func (t rowTimeline) outcomeEntry() TimelineEntry {
	switch t.row.Status {
	case store.Queued:
		key, tone := "line.queued", Neutral
		if t.row.Attempt > 0 && t.row.Reason != "backlog" && (t.row.Reason != "" || t.row.ProviderCode != "") {
			key, tone = "line.postponed", Warn
		}
		if t.over {
			key, tone = key+".over", Warn
		}
		return t.undatedEntry(t.row.LoggedAt, tone, key)
	case store.Sending:
		return t.undatedEntry(t.row.LoggedAt, Neutral, "line.sending")
	case store.Sent, store.Delivered:
		return t.datedEntry(t.row.FinishedAt, Good, map[bool]string{true: "line.sent.inferred", false: "line.sent"}[isInferred(t.row)])
	case store.Undelivered:
		return t.datedEntry(t.row.FinishedAt, Warn, "line.sent")
	case store.Unknown:
		if t.row.Took == 0 { // the send ended without another attempt
			return t.datedEntry(t.row.FinishedAt, Warn, "line.failed")
		}
		return t.datedEntry(t.row.FinishedAt, Warn, "line.unknown")
	}
	if t.row.Reason == store.ReasonSuppressed || t.row.Reason == store.ReasonPaused {
		return t.datedEntry(t.row.FinishedAt, Bad, "line.untried")
	}
	if t.row.Counts {
		return t.datedEntry(t.row.FinishedAt, Bad, "line.failed")
	}
	return t.datedEntry(t.row.FinishedAt, Bad, "line.failed.free")
}

func (t rowTimeline) datedEntry(when time.Time, tone Tone, key string) TimelineEntry {
	return TimelineEntry{At: t.WithMilliseconds(when), Tone: tone, What: t.sentence(key), order: when}
}

// undatedEntry returns an entry for an event whose time is not stored. after is the time of another
// event. In the time line, the entry comes after the entries of that time.
func (t rowTimeline) undatedEntry(after time.Time, tone Tone, key string) TimelineEntry {
	return TimelineEntry{Tone: tone, What: t.sentence(key), order: after}
}

func (t rowTimeline) sentence(key string) texts.Sentence {
	r := t.row
	return t.Sentence(key,
		texts.Strong("app", r.App), texts.Plain("purpose", r.Purpose),
		texts.Plain("locale", textIfKnown(t.Words, "line.locale", RequestedLocale(r))),
		texts.Plain("network", textIfKnown(t.Words, "line.from", r.Network)),
		texts.Plain("number", strconv.Itoa(r.Number)), texts.Plain("attempt", strconv.Itoa(r.Attempt)),
		texts.Strong("rule", r.BlockedBy), texts.Plain("wait", t.Wait(r.RetryAfter)),
		texts.Plain("n", strconv.Itoa(r.Count)),
		texts.Plain("through", cmp.Or(r.Provider, t.Get("through.unknown"))), texts.Plain("said", t.serverReply()),
		texts.Plain("took", t.Elapsed(r.Took)))
}

// textIfKnown returns the text of a key with the value filled in. If the value is "" and thus not
// known, it returns "".
func textIfKnown(w texts.Words, key, value string) string {
	if value == "" {
		return ""
	}
	return w.Get(key, "value", value)
}

// serverReply returns the server's code and the service's reason. If there is neither, it returns a
// text that says so.
func (t rowTimeline) serverReply() string {
	parts := []string{t.row.ProviderCode, t.Or("reason", t.row.Reason)}
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	return cmp.Or(strings.Join(parts, t.Get("list.comma")), t.Get("line.said.nothing"))
}

func codeEntries(v store.Verification, now time.Time, w texts.Words) []TimelineEntry {
	tries := []texts.Substitution{
		texts.Plain("tries", strconv.Itoa(v.Attempts)),
		texts.Plain("of", strconv.Itoa(v.MaxAttempts)),
	}
	line := func(when time.Time, tone Tone, key string) TimelineEntry {
		return TimelineEntry{At: w.WithMilliseconds(when), Tone: tone, What: w.Sentence(key, tries...), order: when}
	}
	var all []TimelineEntry
	for i, check := range wrongChecks(v) {
		what := w.Sentence("line.wrong", texts.Plain("n", strconv.Itoa(i+1)),
			texts.Plain("of", strconv.Itoa(v.MaxAttempts)),
			texts.Plain("network", textIfKnown(w, "line.from", check.Network)))
		all = append(all, TimelineEntry{At: w.WithMilliseconds(check.At), Tone: Warn, What: what, order: check.At})
	}
	if !v.NotMeAt.IsZero() {
		all = append(all, line(v.NotMeAt, Bad, "line.not_me"))
	}
	if CodeStateOf(v, now) == store.CodeOfCaller {
		return all
	}
	switch verification.StateOf(v, now) {
	case verification.Approved:
		if v.CallerChecks {
			return append(all, line(v.ApprovedAt, Good, "line.reported"))
		}
		return append(all, line(v.ApprovedAt, Good, "line.approved"))
	case verification.Canceled:
		return append(all, line(v.CanceledAt, Warn, "line.canceled"))
	case verification.MaxAttemptsReached:
		locked := line(lastWrongCheckAt(v), Bad, "line.locked")
		if locked.order.IsZero() { // the recipient was erased, and the times of the checks with it
			locked.order = v.ExpiresAt
		}
		return append(all, locked)
	case verification.Expired:
		return append(all, line(v.ExpiresAt, Warn, "line.expired"))
	}
	until := line(v.ExpiresAt, Neutral, "line.until")
	until.Future = true
	return append(all, until)
}

// wrongChecks returns the checks of wrong codes, oldest first. If the verification is approved, its
// last check was right and is left out. If the recipient was erased, the result is empty.
func wrongChecks(v store.Verification) []store.Check {
	if v.ApprovedAt.IsZero() {
		return v.Checks
	}
	return v.Checks[:max(len(v.Checks)-1, 0)]
}

// lastWrongCheckAt returns when the last wrong code was entered. If that is not known, the result
// is zero.
func lastWrongCheckAt(v store.Verification) time.Time {
	if wrong := wrongChecks(v); len(wrong) > 0 {
		return wrong[len(wrong)-1].At
	}
	return time.Time{}
}

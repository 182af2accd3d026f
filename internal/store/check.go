package store

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

const (
	MaxPageRows    = 200 // the highest Limit of a filter
	MaxRelatedRows = 500 // rows in SendDetails.Related
	MaxTextBytes   = 512 // a text in an index; Postgres allows 2,704 bytes for a whole index key
)

func BadRequestf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrBadRequest}, args...)...)
}

// TruncateToMicroseconds returns t as the database stores it: whole microseconds, UTC, without a
// monotonic reading. The zero time stays zero.
func TruncateToMicroseconds(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// AreValidTexts reports whether every database can store these texts: UTF-8 without NUL, and at
// most MaxTextBytes, for indexes. Postgres rejects a statement for one invalid text, and all its
// rows are lost.
func AreValidTexts(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(s string) bool {
		return len(s) > MaxTextBytes || !utf8.ValidString(s) || strings.ContainsRune(s, 0)
	})
}

// ValidatedIntent validates an intent, and copies the fields that send and verification share from
// the send to the verification. Errors wrap ErrBadRequest.
func ValidatedIntent(in Intent) (Intent, error) {
	s, v := &in.Send, &in.Verification
	v.App, v.Channel, v.Purpose, v.Recipient = s.App, s.Channel, s.Purpose, s.Recipient
	v.To, v.Locale, v.Labels = s.To, s.Locale, s.Labels
	switch {
	case s.ID == uuid.Nil || v.ID == "" || s.App == "" || s.Channel == "" || s.Purpose == "":
		return in, BadRequestf("an intent names its send, verification, app, channel and purpose")
	case v.CallerChecks != (len(in.Code) > 0) || v.CallerChecks && in.Join != "":
		return in, BadRequestf("a caller's code opens a verification that the caller checks")
	case v.Reported != "" && (!v.CallerChecks || v.Reported != ReportDue):
		return in, BadRequestf("a report is due for a code that the caller checks")
	case v.Class == KnownBrowser && v.Holder != "":
		return in, BadRequestf("a known browser holds its verifications by their IDs")
	case !slices.Contains(in.Purposes, s.Purpose):
		return in, BadRequestf("purpose %q does not share its own policy", s.Purpose)
	case !s.Labels.valid() || !AreValidTexts(s.App, string(s.Channel), s.Purpose, s.To, s.Country, s.Prefix, s.Locale,
		s.Network, s.Site, s.RequestID, s.HumanCheck, v.ID, v.Holder, v.KeyID, v.Details, in.Join):
		return in, BadRequestf("a text is not plain UTF-8 of at most %d bytes", MaxTextBytes)
	case slices.ContainsFunc(in.Purposes, func(p string) bool {
		return !AreValidTexts(p) ||
			strings.Contains(p, PurposeSeparator)
	}):
		return in, BadRequestf("a purpose has U+001F, or is not plain UTF-8 of at most %d bytes", MaxTextBytes)
	case len(v.Replaces) > MaxReplacedIDs || !AreValidTexts(strings.Join(v.Replaces, ListSeparator)):
		return in, BadRequestf("a verification replaces at most %d others", MaxReplacedIDs)
	case slices.ContainsFunc(s.Observed, func(r string) bool {
		return r == "" || !AreValidTexts(r) ||
			strings.Contains(r, ListSeparator)
	}):
		return in, BadRequestf("an observed rule has no name, or one with a comma")
	}
	return in, nil
}

// PurposeSeparator joins purposes into one parameter of a statement.
const PurposeSeparator = "\x1f"

// Sanitized returns the outcome as the store writes it. Texts of a mail server that can't be stored
// are repaired rather than rejected, because a send without an outcome would stay in flight.
func (o Outcome) Sanitized() Outcome {
	o.Reason, o.Provider, o.ProviderCode = sanitized(o.Reason), sanitized(o.Provider), sanitized(o.ProviderCode)
	o.Took, o.Suppress = max(0, o.Took).Truncate(time.Microsecond), o.Suppress.sanitized()
	return o
}

func (n NewSuppression) sanitized() NewSuppression {
	n.For, n.Words = max(0, n.For).Truncate(time.Microsecond), sanitized(n.Words)
	return n
}

// Sanitized returns the postponement as the store writes it, with its texts repaired.
func (p Postponement) Sanitized() Postponement {
	p.Reason, p.Provider, p.ProviderCode = sanitized(p.Reason), sanitized(p.Provider), sanitized(p.ProviderCode)
	return p
}

// sanitized makes s storable: U+FFFD for invalid UTF-8 and NUL, cut to MaxTextBytes.
func sanitized(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > MaxTextBytes {
		s = strings.ToValidUTF8(s[:MaxTextBytes], "")
	}
	return s
}

// MergeRefusals sums refusals with the same ID, so that one statement writes each row once, and
// sorts by ID, so that replicas lock rows in the same order.
func MergeRefusals(refusals []SendOrRefusal) []SendOrRefusal {
	byID := map[uuid.UUID]SendOrRefusal{}
	for _, r := range refusals {
		r.Count = max(1, r.Count)
		if earlier, ok := byID[r.ID]; ok {
			earlier.Count, earlier.RetryAfter, earlier.Recipients = earlier.Count+r.Count, r.RetryAfter,
				max(earlier.Recipients, r.Recipients)
			r = earlier
		}
		byID[r.ID] = r
	}
	rows := make([]SendOrRefusal, 0, len(byID))
	var r SendOrRefusal
	columns := r.Columns()
	for _, r = range byID {
		sanitizeRefusal(&r, columns)
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b SendOrRefusal) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return rows
}

// sanitizeRefusal sets a refusal's fields as its row needs them, except LoggedAt. Texts are
// repaired rather than rejected, because every refused request must be recorded.
func sanitizeRefusal(r *SendOrRefusal, columns []Column) {
	for _, c := range columns {
		if text, ok := c.Field.(*string); ok && c.Flags&InsertedByRefusal != 0 {
			*text = sanitized(*text)
		}
	}
	r.Status, r.RetryAfter = Refused, r.RetryAfter.Truncate(time.Microsecond)
}

// MayMatchAny returns false if no row can match, so that no query is needed.
func (f Filter) MayMatchAny() bool {
	return AreValidTexts(string(f.Status), string(f.Channel), f.Purpose, f.App, f.BlockedBy, f.Provider,
		f.Country, f.Domain, f.Network) && f.Labels.valid() &&
		(f.Support == "" || IsSupportReference(f.Support)) && (f.MayMatchSends() || f.MayMatchRefusals())
}

func (f Filter) MayMatchSends() bool { return f.Status != Refused && f.BlockedBy == "" }

func (f Filter) MayMatchRefusals() bool {
	return !f.SendsOnly && (f.Status == "" || f.Status == Refused) && f.Provider+f.Request == "" && f.Labels == Labels{} && f.Outcome == ""
}

// ListSeparator separates the names of rules, or other texts of a list, in a column. None of them
// contains it.
const ListSeparator = ","

// Validate refuses a query without a Holder, since knowing an address gives no right to see its
// verifications, or with a text that no row can have. Errors wrap ErrBadRequest.
func (r RecipientVerificationsQuery) Validate() error {
	if r.Holder == "" || !AreValidTexts(r.App, string(r.Channel), r.Purpose, r.Holder) {
		return BadRequestf("a holding names its holder, app, channel and purpose")
	}
	return nil
}

package console

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
	"sendcode/internal/verify/verification"
)

// finding is the result of a search. At most one field is set.
type finding struct {
	address string            // the address of a page of the console
	unknown *unknownRecipient // a recipient to whom no row belongs
	several []recipientLink   // recipients that look alike on pages
}

// unknownRecipient is a recipient to whom no row belongs.
type unknownRecipient struct {
	hash   recipient.Hash
	masked string
}

// recipientLink leads to the list of one recipient.
type recipientLink struct{ To, Tag, Address string }

// searchPage redirects a search to the page of a send or to the list of sends. The list is filtered
// by the recipient's hash, a mail domain, a support reference, the caller's reference or the ID of
// a request. The URL of the redirect never contains a full recipient. If the search finds nothing,
// the answer is the list, with the text of the search and a sentence on how to find a person.
func (console *Console) searchPage(c echo.Context, form url.Values) error {
	found, err := console.search(c.Request().Context(), form.Get("q"))
	typed, w := searchTerm(form.Get("q")), layout.Words(c)
	q := listQuery{filter: store.Filter{Limit: layout.DefaultPageRows}, given: url.Values{}}
	bad, invalid := errors.AsType[*fault.InvalidError](err)
	switch {
	case invalid:
		return console.showList(c, http.StatusUnprocessableEntity, q, searchView{Typed: typed, Problem: searchProblem(w, bad, typed)})
	case err != nil:
		return err
	case found.unknown != nil:
		layout.RememberSearched(c, found.unknown.hash, found.unknown.masked)
		return c.Redirect(http.StatusSeeOther, listAddress(nil, "recipient", found.unknown.hash.String()))
	case len(found.several) > 0:
		problem := w.Get("search.reason.several", "text", excerpt(typed))
		return console.showList(c, http.StatusUnprocessableEntity, q, searchView{Typed: typed, Problem: problem, Several: found.several})
	}
	return c.Redirect(http.StatusSeeOther, found.address)
}

// searchProblem returns a text that says what was not found, and how to find a person. For a
// mistake in an address or a number, it describes the mistake.
func searchProblem(w texts.Words, bad *fault.InvalidError, typed string) string {
	problem := cmp.Or(w.Get("search.reason."+bad.Reason, "text", excerpt(typed)), w.Get("unserved."+bad.Reason), bad.Detail)
	if strings.HasPrefix(bad.Reason, nothingFound) {
		problem += w.Get("sentence.space") + w.Get("search.how")
	}
	return problem
}

// maxExcerpt is how many characters of a search a sentence repeats.
const maxExcerpt = 60

// excerpt returns the beginning of a text, on one line.
func excerpt(text string) string {
	line := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " "))
	if len(line) > maxExcerpt {
		return string(line[:maxExcerpt]) + "…"
	}
	return string(line)
}

// nothingFound is the beginning of the reasons of valid searches that found nothing. If the text
// has the form of a domain, an ID, a mask, a support reference or digits, the reason continues with
// that form.
const nothingFound = "unknown"

const (
	noDomain  = nothingFound + ".domain"
	noID      = nothingFound + ".id"
	noMask    = nothingFound + ".mask"
	noSupport = nothingFound + ".support"
	noDigits  = nothingFound + ".digits" // perhaps the end of a number
)

// search finds what a typed text names. If the whole text names nothing, search looks for what a
// longer text contains, such as a line of a log. The error is a *fault.InvalidError or one of the
// store.
func (console *Console) search(ctx context.Context, typed string) (finding, error) {
	whole, err := console.searchText(ctx, typed)
	bad, invalid := errors.AsType[*fault.InvalidError](err)
	if err == nil && whole.unknown == nil || err != nil && !invalid || invalid && bad.Reason == "required" {
		return whole, err
	}
	parts := partsOf(typed)
	if invalid && bad.Reason == "invalid" && len(parts) > 0 { // too long for a reference
		err = fault.Invalid("q", nothingFound, "")
	}
	for _, part := range parts {
		found, failed := console.searchText(ctx, part)
		switch _, ok := errors.AsType[*fault.InvalidError](failed); {
		case failed == nil && found.unknown == nil:
			return found, nil
		case failed == nil && err != nil && strings.ContainsFunc(typed, unicode.IsSpace):
			whole, err = found, nil // the text contains an address, and nothing else in it is found
		case failed != nil && !ok:
			return finding{}, failed
		}
	}
	return whole, err
}

// These match parts of a longer text by which something may be found.
var (
	// member matches a name with its value, as in a line of a log or an answer of the API.
	member = regexp.MustCompile(`"?\b([A-Za-z][A-Za-z_-]*)\\?"?\s*[:=]\s*\\?"?([^\s"\\,;{}\[\]]+)`)
	// anyID matches an ID, a support reference, an address, or a hash.
	anyID = regexp.MustCompile(`(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\bS-[0-9A-Z]{4}-[0-9A-Z]{4}\b|` +
		`[^\s<>()"'“”‘’«»,;:@=]+@[^\s<>()"'“”‘’«»,;:@=]+\.[^\s<>()"'“”‘’«»,;:@=]+|\b[0-9a-f]{32}\b`)
)

// searchedMembers are the names of members whose values are searched, in lower case and without
// separators, the most telling first.
var searchedMembers = []string{
	"send", "sendid", "id", "verification", "verificationid", "messageid", "supportreference", "support", "recipient", "to", "address",
	"requestid", "xrequestid", "request", "traceid", "reference",
}

// maxParts bounds the reads of one search.
const maxParts = 12

// partsOf returns the parts of a longer text by which something may be found: the values of its
// members that name a send, a request or a recipient, then its other IDs, references and addresses.
func partsOf(text string) (parts []string) {
	text = strings.ToValidUTF8(text, "")
	add := func(part string) {
		if part != text && len(parts) < maxParts && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	values := map[string][]string{}
	for _, m := range member.FindAllStringSubmatch(text, 4*maxParts) {
		name := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(m[1]))
		values[name] = append(values[name], m[2])
	}
	for _, name := range searchedMembers {
		for _, value := range values[name] {
			add(value)
		}
	}
	for _, id := range anyID.FindAllString(text, maxParts) {
		add(id)
	}
	return parts
}

// searchText finds what a text names. It ignores words and punctuation around the search term.
func (console *Console) searchText(ctx context.Context, text string) (finding, error) {
	typed := searchTerm(text)
	to, err := console.supportReferenceAddress(ctx, recipient.AsRead(typed))
	if err == nil && to == "" && maskPattern.MatchString(text) {
		var shown finding
		if shown, err = console.shownRecipients(ctx, text); err == nil && (shown.address != "" || len(shown.several) > 0) {
			return shown, nil
		}
	}
	if err != nil || to != "" {
		return finding{address: to}, err
	}
	found, err := console.searchAddress(ctx, typed)
	bad, ok := errors.AsType[*fault.InvalidError](err)
	if !ok {
		return found, err
	}
	// not found as a recipient, a reference or an ID
	shown, failed := console.shownRecipients(ctx, text)
	if failed != nil || shown.address != "" || len(shown.several) > 0 {
		return shown, failed
	}
	domain, failed := console.domainAddress(ctx, typed)
	switch {
	case failed != nil || domain != "":
		return finding{address: domain}, failed
	case maskPattern.MatchString(typed): // a mask, even if it is also an invalid address
		err = fault.Invalid("q", noMask, "")
	case store.IsSupportReference(recipient.AsRead(typed)):
		err = fault.Invalid("q", noSupport, "")
	case bad.Reason == "no_country_code":
		err = fault.Invalid("q", noDigits, "")
	case bad.Reason == nothingFound && domainName.MatchString(typed):
		err = fault.Invalid("q", noDomain, "")
	}
	return finding{}, err
}

// domainName matches a mail domain alone. It does not match a version or a time.
var domainName = regexp.MustCompile(`^@?[\pL\pN-]+(?:\.[\pL\pN-]+)*\.\pL[\pL\pN-]+$`)

// maskPattern matches the part of a masked recipient that hides characters, as pages show it and as
// people type it.
var maskPattern = regexp.MustCompile(`[•*…]+|\.{3,}`)

// tagPattern matches the four characters beside a recipient (see recipient.Hash.Tag).
var tagPattern = regexp.MustCompile(`(?i)^#?[0-9A-HJKMNP-TV-Z]{4}$`)

// maxShownRows bounds the search by a mask or a tag, for which there is no index.
const maxShownRows = 1000

// maxSeveral is how many recipients are offered if several look alike.
const maxSeveral = 10

// shownRecipients finds the recipients that pages show as typed: masked, by the four characters, or
// both. It searches the newest rows, and for a mask with a domain only the rows of that domain. If
// no row fits, the finding is empty.
func (console *Console) shownRecipients(ctx context.Context, typed string) (found finding, err error) {
	mask, mark := strings.Trim(strings.TrimSpace(typed), "\"'“”‘’«»<>,;"), ""
	if i := strings.LastIndexAny(mask, " \t"); tagPattern.MatchString(mask[i+1:]) {
		mask, mark = mask[:i+1], strings.ToUpper(strings.TrimPrefix(mask[i+1:], "#"))
	}
	without := func(s string) string { return strings.Join(strings.Fields(s), "") }
	mask = without(maskPattern.ReplaceAllString(recipient.AsRead(mask), "•••"))
	if mask+mark == "" || mask != "" && !strings.Contains(mask, "•••") {
		return found, nil
	}
	f := store.Filter{Limit: maxShownRows}
	f.Domain, _ = recipient.MaskedDomain(recipient.DomainOfMasked(mask)) // "" for a number and a tag
	rows, err := console.DB.Sends(ctx, f)
	if err != nil {
		return found, err
	}
	seen := map[recipient.Hash]bool{}
	for _, r := range rows {
		alike := (mask == "" || strings.EqualFold(without(r.To), mask)) && (mark == "" || r.Recipient.Tag() == mark)
		if alike && r.Recipients == 0 && !r.Recipient.IsZero() && !seen[r.Recipient] && len(found.several) < maxSeveral {
			seen[r.Recipient] = true
			found.several = append(found.several, recipientLink{r.To, r.Recipient.Tag(), listAddress(nil, "recipient", r.Recipient.String())})
		}
	}
	if len(found.several) == 1 {
		return finding{address: found.several[0].Address}, nil
	}
	return found, nil
}

// domainAddress returns the address of the list of sends to a mail domain. If the text is not a
// domain, or if no send went there, it returns "", so that no URL contains another text.
func (console *Console) domainAddress(ctx context.Context, typed string) (string, error) {
	domain, err := recipient.MaskedDomain(typed)
	if err != nil {
		return "", nil //nolint:nilerr // another text
	}
	rows, err := console.DB.Sends(ctx, store.Filter{Domain: domain, Limit: 1})
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return listAddress(nil, "domain", domain), nil
}

// supportReferenceAddress returns the address in the console to which a search for a support
// reference leads. This is the page of the send, or a list if several sends share the reference. If
// the text is not a reference, or if no send has the reference, supportReferenceAddress returns "".
func (console *Console) supportReferenceAddress(ctx context.Context, typed string) (string, error) {
	rows, err := console.DB.SendsBySupportReference(ctx, typed)
	if half := "S-" + typed; err == nil && len(rows) == 0 && store.IsSupportReference(half) {
		rows, err = console.DB.SendsBySupportReference(ctx, half)
	}
	switch {
	case err != nil:
		return "", err
	case len(rows) == 0:
		return "", nil
	case len(rows) == 1:
		return explain.SendPageAddress(rows[0].ID), nil
	}
	return listAddress(nil, "support", store.SupportReference(rows[0].ID)), nil
}

// searchAddress finds a send, or a list by recipient, reference or request. The URL may contain an
// ID, a hash, or an address of the console. It contains another typed text only if that text is the
// reference of a send. A URL never contains a text that may be a recipient, because browsers and
// proxies keep URLs.
//
// searchAddress returns a *fault.InvalidError or an error of the store. If a recipient has no rows
// and the service refuses to send codes to it, the error is a *fault.InvalidError.
func (console *Console) searchAddress(ctx context.Context, typed string) (finding, error) {
	if typed == "" {
		return finding{}, fault.Invalid("q", "required", "")
	}
	ch, to, is := guessRecipient(typed)
	if u, err := url.Parse(typed); err == nil && !is && u.Host != "" && (u.Path == "/admin" || strings.HasPrefix(u.Path, "/admin/")) {
		return finding{address: u.RequestURI()}, nil
	}
	plain := strings.Join(strings.Fields(recipient.AsRead(typed)), " ")
	// known returns the finding of a search by ID or hash. If the search found no rows, the typed
	// text may still be a request's ID. If it is none, the error is a *fault.InvalidError.
	known := func(address string, rows []store.SendOrRefusal, err error) (finding, error) {
		if err == nil && len(rows) == 0 {
			address = ""
		}
		address, err = console.fallBackToRequestAddress(ctx, plain, address, rows, err)
		if err == nil && address == "" {
			err = fault.Invalid("q", noID, "")
		}
		return finding{address: address}, err
	}
	if id, err := uuid.Parse(plain); err == nil && strings.EqualFold(id.String(), plain) {
		rows, _, err := console.DB.SendsByID(ctx, []uuid.UUID{id})
		return known(explain.SendPageAddress(id), rows, err)
	}
	if _, send, _, err := console.DB.Verification(ctx, plain); !errors.Is(err, fault.NotFound) {
		// a verification ID lets its holder act, so the address has the send's ID instead
		return finding{address: explain.SendPageAddress(send.ID)}, err
	}
	if id, err := console.sendOfCarrier(ctx, plain); err != nil || id != uuid.Nil {
		return finding{address: explain.SendPageAddress(id)}, err
	}
	if h, err := recipient.ParseHash(strings.ToLower(plain)); err == nil {
		rows, err := console.DB.Sends(ctx, store.Filter{Recipient: &h, Limit: 1})
		return known(listAddress(nil, "recipient", h.String()), rows, err)
	}
	if _, err := netip.ParseAddr(plain); err == nil {
		return finding{}, fault.Invalid("q", "network", "")
	}
	if !is {
		address, err := console.referenceAddress(ctx, typed, plain)
		return finding{address: address}, err
	}
	parsed, err := verification.ParseRecipient(string(ch), to, "")
	if err != nil {
		if address, err := console.referenceAddress(ctx, typed, plain); err == nil { // a reference may be a number
			return finding{address: address}, nil
		}
		return finding{}, err
	}
	h := console.Administration.Vault.CountedHash(parsed)
	rows, err := console.DB.Sends(ctx, store.Filter{Recipient: &h, Limit: 1})
	if err != nil || len(rows) > 0 {
		return finding{address: listAddress(nil, "recipient", h.String())}, err
	}
	err = console.Administration.Codes.ValidateRecipient(string(ch), to)
	return finding{unknown: &unknownRecipient{h, parsed.Masked()}}, err
}

// sendOfCarrier returns the send to which a carrier gave a message ID of its own; the nil UUID if
// no carrier did, or if no receipt of the message is awaited any more.
func (console *Console) sendOfCarrier(ctx context.Context, message string) (uuid.UUID, error) {
	if !logs.IsRequestID(message) { // too short or too long, or with a character that no request ID has
		return uuid.Nil, nil
	}
	for _, carrier := range console.Carriers {
		id, err := console.DB.SendByMessageID(ctx, carrier, message)
		if !errors.Is(err, fault.NotFound) {
			return id, err
		}
	}
	return uuid.Nil, nil
}

// referenceAddress returns the address of the console's list of sends with a reference. typed is
// the text of the search, and plain is the same text, cleaned. The reference is the first of these
// that a send has: typed, plain, plain without a #, and the last in upper case or in lower case. If
// no send has any of them, but plain is the ID of a request, the address is that of the request's
// sends. Errors are a *fault.InvalidError or those of the store.
func (console *Console) referenceAddress(ctx context.Context, typed, plain string) (string, error) {
	if err := layout.ShortTextParameter(new(string)).Parse("q", typed); err != nil {
		return "", err
	}
	bare := strings.TrimSpace(strings.TrimPrefix(plain, "#"))
	for _, reference := range slices.Compact([]string{typed, plain, bare, strings.ToUpper(bare), strings.ToLower(bare)}) {
		rows, err := console.DB.Sends(ctx, store.Filter{Labels: store.Labels{Reference: reference}, Limit: 1})
		if err != nil || len(rows) > 0 {
			return listAddress(nil, "reference", reference), err
		}
	}
	address, err := console.fallBackToRequestAddress(ctx, plain, "", nil, nil)
	switch {
	case err != nil || address != "":
	case strings.Trim(bare, "0123456789") == "":
		err = fault.Invalid("q", noDigits, "")
	default:
		err = fault.Invalid("q", nothingFound, "")
	}
	return address, err
}

// filterPage handles the posted form of filters. It redirects to the list with these filters. If a
// field contains what may be a recipient, filterPage starts a search instead, so that no URL
// contains the recipient.
func (console *Console) filterPage(c echo.Context, form url.Values) error {
	given := url.Values{}
	for _, p := range knownFilters {
		value := strings.TrimSpace(form.Get(p.name))
		if p.name == "domain" {
			value = strings.TrimPrefix(value, "@")
		}
		read := recipient.AsRead(value)
		number := p.more && p.name != "from" && p.name != "to" && support.ContainsPhoneNumber(read, math.MaxInt)
		if strings.Contains(read, "@") || number {
			return console.searchPage(c, url.Values{"q": {value}})
		}
		if value != "" {
			given.Set(p.name, value)
		}
	}
	return c.Redirect(http.StatusSeeOther, listAddress(given, "", ""))
}

// embeddedTerm matches a mail address, a support reference, or an ID after the word "id" within a
// longer text.
var embeddedTerm = regexp.MustCompile(
	`(?i)([^\s<>()"'“”‘’«»,;:@]+@[^\s<>()"'“”‘’«»,;:@]+\.[^\s<>()"'“”‘’«»,;:@]+|\bS-[0-9A-Z]{4}-[0-9A-Z]{4}\b)|\bid\W+([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b`)

// cutOut returns the mail address, the reference or the ID within a longer text, without the
// punctuation around it.
func cutOut(typed string) string {
	if _, rest, named := strings.Cut(typed, "<"); named {
		if inner, _, closed := strings.Cut(rest, ">"); closed {
			typed = inner
		}
	}
	typed = strings.Trim(typed, " \t\"'“”‘’«»,;:<>")
	if scheme := "mailto:"; len(typed) > len(scheme) && strings.EqualFold(typed[:len(scheme)], scheme) {
		typed, _, _ = strings.Cut(typed[len(scheme):], "?")
	}
	if found := embeddedTerm.FindAllStringSubmatch(typed, 2); len(found) == 1 && strings.ContainsFunc(typed, unicode.IsSpace) {
		typed = found[0][1] + found[0][2]
	}
	return typed
}

// searchTerm extracts the search term from a text that was copied from a ticket or a mail. The term
// is a mail address, for example from "Ana <ana@example.com>", a mailto link or a list. It can also
// be the ID of a send, from a Message-ID or from the address of the send's page. searchTerm removes
// the spaces within an address and the punctuation around the address.
func searchTerm(typed string) string {
	typed = strings.TrimSpace(typed)
	_, err := recipient.Parse(recipient.Email, typed)
	if read := recipient.AsRead(typed); strings.Contains(read, "@") && (err != nil || strings.Contains(typed, "%")) {
		typed = strings.TrimSpace(read)
	}
	if r, err := recipient.Parse(recipient.Email, typed); err == nil {
		typed = r.Address()
	} else {
		typed = cutOut(typed)
	}
	if _, id, page := strings.Cut(typed, "/admin/sends/"); page {
		typed = id[:min(len(id), 36)]
	}
	if local, _, address := strings.Cut(typed, "@"); address {
		if id, _, _ := strings.Cut(local, "."); uuid.Validate(id) == nil { // a Message-ID
			return id
		}
		typed = recipient.TrimPasted(strings.Join(strings.Fields(typed), ""))
	}
	return strings.TrimRight(typed, ".")
}

// requestSearchTimeout bounds the search for a request's ID, for which there is no index.
const requestSearchTimeout = 2 * time.Second

// fallBackToRequestAddress returns address, the result of a search, with one exception. If the
// search found no rows (found is empty), and typed is the ID of a request that made sends, it
// returns the address of those sends.
func (console *Console) fallBackToRequestAddress(ctx context.Context, typed, address string, found []store.SendOrRefusal,
	err error,
) (string, error) {
	if err != nil || len(found) > 0 || !logs.IsRequestID(typed) {
		return address, err
	}
	q, err := parseQuery(url.Values{"request": {typed}, "limit": {"2"}}.Encode(), console.Now(), time.UTC)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, requestSearchTimeout)
	defer cancel()
	// If the database does not answer in time or fails, the request is treated as not found.
	switch rows, _ := console.sendsWithTimeFallback(ctx, q.filter); len(rows) {
	case 0:
		return address, nil
	case 1:
		return explain.SendPageAddress(rows[0].ID), nil
	}
	return listAddress(nil, "request", typed), nil
}

// guessRecipient returns the channel and the text of a typed recipient. If the text is not a
// recipient, the third result is false. A text with an at sign is a mail address. A text with at
// least five digits and only phone punctuation is a phone number. So is a longer text that contains
// a plus sign with seven digits.
func guessRecipient(typed string) (ch recipient.Channel, to string, is bool) {
	if strings.Contains(recipient.AsRead(typed), "@") {
		return recipient.Email, typed, true
	}
	number, digits := cleanPhoneNumber(typed), 0
	for _, r := range number {
		switch {
		case unicode.IsDigit(r):
			digits++
		case !strings.ContainsRune("+ -()./", r):
			return recipient.SMS, typed, support.ContainsPhoneNumber(number, math.MaxInt)
		}
	}
	return recipient.SMS, number, digits >= 5
}

// cleanPhoneNumber returns a typed phone number without the scheme of a link, and with + in place
// of 00.
func cleanPhoneNumber(typed string) string {
	number := recipient.AsRead(typed)
	if scheme := "tel:"; len(number) >= len(scheme) && strings.EqualFold(number[:len(scheme)], scheme) {
		number = number[len(scheme):]
	}
	number = strings.TrimSpace(number)
	if rest, abroad := strings.CutPrefix(number, "00"); abroad {
		return "+" + rest
	}
	return number
}

package delivery

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Form renders the texts of mails of one kind, which differ only in the characters of fill: the code and the support reference. Forms are
// compared with ==. Implementation: message.Form.
type Form interface {
	Texts(fill string) (subject, text, html string, err error)
}

// layout is a rendered mail of one kind with blanks for the parts that differ: the recipient, the Message-ID and the boundary made of it,
// the date, and the characters of the fill. Filling them in costs much less than building the mail, and gives the same bytes. Mails for
// which that is not certain are built.
type layout struct {
	from    string
	utf8    bool
	content []byte  // of a sample mail
	places  []place // sorted
}

// place is where a blank stands in a mail.
type place struct {
	at, size int
	blank    blankKind
	index    int // of a character of the fill
}

type blankKind int

const (
	blankTo blankKind = iota
	blankID           // what stands before the @
	blankBoundary
	blankDate
	blankFill
)

// layoutKey is everything that a mail depends on but the blanks.
type layoutKey struct {
	form                          Form
	from, language, domain, marks string
	id, fill                      int    // lengths
	dashes                        uint64 // which characters of the fill are dashes: a header may encode them
}

// Layouts renders mails, and keeps the layouts that were used. A layout has no recipient and no code. The zero Layouts is ready; safe for
// concurrent use.
type Layouts struct {
	mu      sync.RWMutex
	kept    map[layoutKey]*layout // nil: mails of this kind are built
	buffers sync.Pool             // of *Rendered
}

// maxLayouts bounds what is kept: some 7 KB each.
const maxLayouts = 512

// Render returns the mail as it goes over the wire, filled into the layout of its kind if there is one. The error says why the message
// is rejected.
func (l *Layouts) Render(m Message) (*Rendered, *Error) {
	key, fits := layoutKeyOf(m)
	if !fits {
		return render(m)
	}
	l.mu.RLock()
	known, ok := l.kept[key]
	l.mu.RUnlock()
	if ok && known != nil {
		return l.fill(known, m), nil
	}
	built, fail := render(m)
	if !ok && fail == nil {
		l.keep(key, newLayout(m, built))
	}
	return built, fail
}

func (l *Layouts) keep(key layoutKey, made *layout) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil || len(l.kept) >= maxLayouts {
		l.kept = map[layoutKey]*layout{}
	}
	l.kept[key] = made
}

func (l *Layouts) fill(known *layout, m Message) *Rendered {
	r, _ := l.buffers.Get().(*Rendered)
	if r == nil {
		r = &Rendered{}
	}
	r.From, r.To, r.UTF8 = known.from, m.To, known.utf8
	r.Content = known.appendMail(slices.Grow(r.Content[:0], len(known.content)+len(m.To)), m)
	r.pooled = true
	return r
}

// Release takes back a mail that nothing reads any more.
func (l *Layouts) Release(r *Rendered) {
	if r != nil && r.pooled {
		l.buffers.Put(r)
	}
}

// maxPlainTo is the longest recipient whose header is on one line for certain.
const maxPlainTo = 60

// layoutKeyOf returns the key of the layout for a mail; false if the mail must be built. It checks the parts that are filled in, since a
// layout checks nothing.
func layoutKeyOf(m Message) (key layoutKey, fits bool) {
	local, domain, _ := strings.Cut(m.ID, "@")
	switch _, bare := normalizeAddress(m.To); {
	case m.Form == nil, m.Date.IsZero(), !bare, !isASCII(m.To), len(m.To) > maxPlainTo:
		return layoutKey{}, false
	case len(local) < minPlainID, !isLettersDigitsHyphens(local), len(m.Fill) >= len(letters), !isLettersDigitsHyphens(m.Fill):
		return layoutKey{}, false
	}
	key = layoutKey{form: m.Form, from: m.From, language: m.Language, domain: domain, id: len(local), fill: len(m.Fill)}
	for i := range m.Fill {
		if m.Fill[i] == '-' {
			key.dashes |= 1 << i
		}
	}
	if len(m.Marks) == 0 {
		return key, true
	}
	names := slices.Sorted(maps.Keys(m.Marks))
	key.marks = strings.Join(names, ",")
	return key, !slices.ContainsFunc(names, func(name string) bool { return m.Marks[name] != local })
}

// letters are the characters in the fills of sample mails.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// minPlainID is the shortest ID that is looked for in a mail.
const minPlainID = 16

// isLettersDigitsHyphens reports whether s has only letters, digits and hyphens. No header and no body encodes letters and digits.
func isLettersDigitsHyphens(s string) bool {
	return !strings.ContainsFunc(s, notLetterDigitHyphen)
}

// newLayout finds the blanks in two mails of the kind that differ in each character of their fills. It returns nil if the layout would
// not give the mail that was built.
func newLayout(m Message, built *Rendered) *layout {
	one, other := sampleLike(m, letters[:len(m.Fill)]), sampleLike(m, letters[1:][:len(m.Fill)])
	first, fail := render(one)
	one.Fill = other.Fill
	second, fail2 := render(one)
	if fail != nil || fail2 != nil || len(first.Content) != len(second.Content) {
		return nil
	}
	l := &layout{from: built.From, utf8: built.UTF8, content: first.Content, places: findBlanks(first.Content, second.Content, one)}
	whole, fail := render(other)
	if fail != nil || !bytes.Equal(l.appendMail(nil, m), built.Content) || !bytes.Equal(l.appendMail(nil, other), whole.Content) {
		return nil
	}
	return l
}

// sampleLike returns a mail of the same kind with another fill, and with an ID, a recipient and a date that stand nowhere else in it.
func sampleLike(m Message, fill string) Message {
	_, domain, _ := strings.Cut(m.ID, "@")
	local := strings.Repeat(rand.Text(), len(m.ID)/16+1)[:len(m.ID)-len(domain)-1]
	m.ID, m.To, m.Date = local+"@"+domain, rand.Text()+"@example.com", time.Unix(1, 0)
	m.Marks = maps.Clone(m.Marks)
	for name := range m.Marks {
		m.Marks[name] = local
	}
	m.Fill = fill
	return m
}

// findBlanks returns the places of the blanks in the content of m. second is the same mail with another character in each place of the
// fill.
func findBlanks(content, second []byte, m Message) (places []place) {
	for at := range content {
		if content[at] != second[at] {
			places = append(places, place{at, 1, blankFill, strings.IndexByte(letters, content[at])})
		}
	}
	local, _, _ := strings.Cut(m.ID, "@")
	for blank, text := range []string{
		blankTo: m.To, blankID: local, blankBoundary: boundary(m.ID), blankDate: m.Date.UTC().Format(time.RFC1123Z),
	} {
		for at := 0; ; at += len(text) {
			next := bytes.Index(content[at:], []byte(text))
			if next < 0 {
				break
			}
			at += next
			places = append(places, place{at, len(text), blankKind(blank), 0})
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	return places
}

// appendMail appends the content of a mail of this layout to out.
func (l *layout) appendMail(out []byte, m Message) []byte {
	local, _, _ := strings.Cut(m.ID, "@")
	sum := boundarySum(m.ID)
	from := 0
	for _, p := range l.places {
		out = append(out, l.content[from:max(from, p.at)]...)
		switch p.blank {
		case blankTo:
			out = append(out, m.To...)
		case blankID:
			out = append(out, local...)
		case blankBoundary:
			out = hex.AppendEncode(out, sum[:boundarySize])
		case blankDate:
			out = m.Date.UTC().AppendFormat(out, time.RFC1123Z)
		case blankFill:
			out = append(out, m.Fill[p.index])
		}
		from = p.at + p.size
	}
	return append(out, l.content[from:]...)
}

// boundarySize is how many bytes of the sum a boundary shows.
const boundarySize = 24

func boundarySum(id string) [sha256.Size]byte {
	const label = "boundary of "
	var text [len(label) + maxAddress]byte
	return sha256.Sum256(append(append(text[:0], label...), id...))
}

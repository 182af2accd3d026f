package message

import (
	"maps"
	"strings"
	"sync"
)

// marks stand for the characters of a code and of the support reference, which differ from mail to mail, each for one
// place. No template holds them, no escaping changes them in text, and none of them is white space.
const marks = "\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"

// molds keeps messages with marks in place of the code and the reference: mails of one kind differ in nothing else, and
// filling these in takes a small part of what the templates take. It holds no code.
type molds struct {
	mu   sync.RWMutex
	kept map[moldKey]mold
}

// maxMolds bounds what is kept. Kinds are few: purposes, locales, apps and minutes.
const maxMolds = 512

// moldKey is everything that a message depends on but the characters of the code and the reference.
type moldKey struct {
	set    setKey
	glance bool
	data   Data // its Code and Support are of the same lengths, and say nothing
}

// mold is a message with marks; unfit where a code can't simply be filled in.
type mold struct {
	Message
	unfit bool
}

func keyOf(set setKey, v view) moldKey {
	k := moldKey{set: set, glance: v.Glance, data: v.Data}
	k.data.Code = marks[:len(v.Code)]
	if fillable(v.Data) {
		k.data.Support = marks[len(v.Code) : len(v.Code)+len(v.Support)]
	}
	return k
}

// fillable says whether the reference can be filled in like the code: it is of characters that no escaping changes, and
// there are marks enough. Another one is a kind of its own.
func fillable(d Data) bool {
	return len(d.Code)+len(d.Support) <= len(marks) && !strings.ContainsFunc(d.Support, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// filling is what takes the marks' places.
func filling(d Data) string {
	if fillable(d) {
		return d.Code + d.Support
	}
	return d.Code
}

func (m *molds) get(k moldKey) (mold, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	found, ok := m.kept[k]
	return found, ok
}

func (m *molds) put(k moldKey, made mold) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil || len(m.kept) >= maxMolds {
		m.kept = map[moldKey]mold{}
	}
	m.kept[k] = made
}

// all is a copy, for tests.
func (m *molds) all() map[moldKey]mold {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return maps.Clone(m.kept)
}

// newMold takes a message rendered with marks, and the same one with a code and a reference to see whether filling in gives
// it: a template may put them where escaping changes marks, into an address or a script.
func newMold(marked, real Message, filled string) mold {
	m := mold{Message: marked}
	if m.fill(filled) != real {
		return mold{unfit: true}
	}
	return m
}

func (m mold) fill(filled string) Message {
	out := m.Message
	for _, part := range []*string{&out.Subject, &out.Text, &out.HTML} {
		*part = fillIn(*part, filled)
	}
	return out
}

func fillIn(text, filled string) string {
	first := strings.IndexAny(text, marks[:len(filled)])
	if first < 0 {
		return text
	}
	b := []byte(text)
	for i := first; i < len(b); i++ {
		if b[i] > marks[len(marks)-1] {
			continue
		}
		if place := strings.IndexByte(marks[:len(filled)], b[i]); place >= 0 {
			b[i] = filled[place]
		}
	}
	return string(b)
}

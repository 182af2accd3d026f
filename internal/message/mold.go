package message

import (
	"maps"
	"strings"
	"sync"
)

// marks stand for a code's characters, each for one place. No template holds them, no escaping changes them in text,
// and none of them is white space.
const marks = "\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x11\x12\x13\x14\x15"

// molds keeps messages with marks in place of the code: mails of one kind differ in nothing else, and filling in a code
// takes a small part of what the templates take. It holds no code.
type molds struct {
	mu   sync.RWMutex
	kept map[moldKey]mold
}

// maxMolds bounds what is kept. Kinds are few: purposes, locales, apps and minutes.
const maxMolds = 512

// moldKey is everything that a message depends on but the code's characters.
type moldKey struct {
	set    setKey
	glance bool
	data   Data // its Code is of the same length, and says nothing
}

// mold is a message with marks; unfit where a code can't simply be filled in.
type mold struct {
	Message
	unfit bool
}

func keyOf(set setKey, v view) moldKey {
	k := moldKey{set: set, glance: v.Glance, data: v.Data}
	k.data.Code = marks[:len(v.Code)]
	return k
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

// newMold takes a message rendered with marks, and the same one with a code to see whether filling in gives it: a
// template may put the code where escaping changes marks, into an address or a script.
func newMold(marked, real Message, code string) mold {
	m := mold{Message: marked}
	if m.fill(code) != real {
		return mold{unfit: true}
	}
	return m
}

func (m mold) fill(code string) Message {
	out := m.Message
	for _, part := range []*string{&out.Subject, &out.Text, &out.HTML} {
		*part = fillIn(*part, code)
	}
	return out
}

func fillIn(text, code string) string {
	first := strings.IndexAny(text, marks[:len(code)])
	if first < 0 {
		return text
	}
	b := []byte(text)
	for i := first; i < len(b); i++ {
		if b[i] > marks[len(marks)-1] {
			continue
		}
		if place := strings.IndexByte(marks[:len(code)], b[i]); place >= 0 {
			b[i] = code[place]
		}
	}
	return string(b)
}

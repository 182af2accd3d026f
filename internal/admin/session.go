package admin

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"
)

// How long a session lives (SEC-17).
const (
	idle     = 30 * time.Minute
	absolute = 12 * time.Hour
	renewal  = time.Minute     // a session used later than this after its cookie was written gets a new one
	skew     = 5 * time.Minute // how far the clocks of two replicas may be apart
)

// sealLabel separates the key that seals sessions from the others of the ring.
const sealLabel = "admin"

// session is who is logged in. It lies sealed in its cookie and nowhere else.
type session struct {
	id      [16]byte // 128 random bits
	started time.Time
	seen    time.Time
}

// sessions seals and opens them. Any replica with the same key ring and password opens what another sealed. Logging
// out is remembered in this process alone: until the log keeps sessions, a copy of a cookie that was taken before
// logging out still opens the console at another replica, or after a restart, for as long as it would have lived.
type sessions struct {
	sealer Sealer
	bound  []byte // what a session is good for: this use and this password

	mu      sync.Mutex
	revoked map[[16]byte]time.Time // until when it must be remembered
}

func newSessions(sealer Sealer, p password) *sessions {
	return &sessions{sealer: sealer, bound: append([]byte("session 1\x00"), p.identity[:]...), revoked: map[[16]byte]time.Time{}}
}

// begin makes a session that starts now. Its times are whole seconds.
func begin(now time.Time) session {
	s := session{started: now.Truncate(time.Second), seen: now.Truncate(time.Second)}
	rand.Read(s.id[:]) // never fails: the program stops when the system has no randomness
	return s
}

const sealedSize = 16 + 8 + 8

func (s *sessions) seal(v session) (string, error) {
	plain := make([]byte, 0, sealedSize)
	plain = append(plain, v.id[:]...)
	plain = binary.BigEndian.AppendUint64(plain, uint64(v.started.Unix()))
	plain = binary.BigEndian.AppendUint64(plain, uint64(v.seen.Unix()))
	sealed, err := s.sealer.Seal(sealLabel, plain, s.bound)
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// open gives the session of a cookie's value, or false: forged, too old, too long idle, or logged out.
func (s *sessions) open(value string, now time.Time) (session, bool) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(value)
	if err != nil {
		return session{}, false
	}
	plain, err := s.sealer.Open(sealLabel, sealed, s.bound)
	if err != nil || len(plain) != sealedSize {
		return session{}, false
	}
	v := session{
		started: time.Unix(int64(binary.BigEndian.Uint64(plain[16:])), 0),
		seen:    time.Unix(int64(binary.BigEndian.Uint64(plain[24:])), 0),
	}
	copy(v.id[:], plain)
	return v, v.lives(now) && !s.isRevoked(v)
}

// lives also refuses a session that was last seen in the future: a clock that was set back would keep it alive.
func (v session) lives(now time.Time) bool {
	return now.Before(v.ends()) && !v.seen.After(now.Add(skew))
}

func (v session) ends() time.Time {
	if end := v.started.Add(absolute); end.Before(v.seen.Add(idle)) {
		return end
	}
	return v.seen.Add(idle)
}

// revoke ends a session. Only who holds one can add to what is remembered.
func (s *sessions) revoke(v session, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, until := range s.revoked {
		if now.After(until) {
			delete(s.revoked, id)
		}
	}
	s.revoked[v.id] = v.started.Add(absolute + skew)
}

func (s *sessions) isRevoked(v session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.revoked[v.id]
	return ok
}

package admin

import (
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

// A cursor is a place in the log: version (1 byte) | instant (8 bytes, µs since 1970) | row's ID (16 bytes), in base64.
// Callers pass it back as they got it. It is a place, not a page number: rows that come in meanwhile move nothing, and
// the same place holds under other filters (AUDIT-5).
const (
	cursorVersion = 1
	cursorSize    = 1 + 8 + 16
)

func writeCursor(m store.Mark) string {
	b := []byte{cursorVersion}
	b = binary.BigEndian.AppendUint64(b, uint64(m.At.UnixMicro()))
	b = append(b, m.ID[:]...)
	return base64.RawURLEncoding.EncodeToString(b)
}

func readCursor(text string) (store.Mark, bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(cursorSize) { // also one with line ends, which decoding passes over
		return store.Mark{}, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != cursorSize || b[0] != cursorVersion {
		return store.Mark{}, false
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(b[1:]))).UTC()
	return store.Mark{At: at, ID: uuid.UUID(b[9:])}, inRange(at)
}

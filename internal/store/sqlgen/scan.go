package sqlgen

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// ScannerFor returns the destination that scans a column into the variable with this address. NULL
// becomes the zero time, hash or UUID, an empty value the zero hash. A time is stored as
// timestamptz or as µs since 1970, a duration as µs, a []string with commas.
func ScannerFor(variable any) any {
	switch variable.(type) {
	case *time.Time, *time.Duration, *[32]byte, *recipient.Hash, *[]string, *[]store.Check, *uuid.UUID:
		return fieldScanner{variable}
	}
	return variable
}

// fieldScanner scans a column into a variable of another type.
type fieldScanner struct{ to any }

// Scan implements sql.Scanner.
func (f fieldScanner) Scan(src any) (err error) {
	switch to := f.to.(type) {
	case *time.Time:
		switch x := src.(type) {
		case nil:
			*to = time.Time{}
			return nil
		case time.Time:
			*to = store.TruncateToMicroseconds(x)
			return nil
		case int64:
			*to = time.UnixMicro(x).UTC()
			return nil
		}
	case *time.Duration:
		if x, ok := src.(int64); ok {
			*to = time.Duration(x) * time.Microsecond
			return nil
		}
	case *recipient.Hash:
		x, ok := src.([]byte)
		if len(x) == 0 && (ok || src == nil) {
			*to = recipient.Hash{}
			return nil
		}
		if len(x) == len(to) {
			*to = recipient.Hash(x)
			return nil
		}
	case *[32]byte:
		if x, ok := src.([]byte); ok && len(x) == len(to) {
			*to = [32]byte(x)
			return nil
		}
	case *[]string:
		if x, ok := src.(string); ok {
			if x != "" {
				*to = strings.Split(x, store.ListSeparator)
			}
			return nil
		}
	case *[]store.Check:
		if x, ok := src.(string); ok || src == nil {
			*to, err = parseCodeChecks(x)
			return err
		}
	case *uuid.UUID:
		return to.Scan(src)
	}
	return fmt.Errorf("store: a column is %T, which is not scanned into %T", src, f.to)
}

// ScanTimestamptz implements pgtype.TimestamptzScanner, which copies no value to the heap.
func (f fieldScanner) ScanTimestamptz(v pgtype.Timestamptz) error {
	to, ok := f.to.(*time.Time)
	if !ok {
		return fmt.Errorf("store: a timestamptz is not scanned into %T", f.to)
	}
	*to = time.Time{}
	if v.Valid {
		*to = store.TruncateToMicroseconds(v.Time)
	}
	return nil
}

// parseCodeChecks parses the column checks: an instant in µs since 1970, a space and a network, as
// "1919191919191919 192.0.2.0/24"; commas between checks.
func parseCodeChecks(text string) (list []store.Check, err error) {
	for text != "" {
		var one string
		one, text, _ = strings.Cut(text, ",")
		at, network, _ := strings.Cut(one, " ")
		µs, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("store: no check: %w", err)
		}
		list = append(list, store.Check{At: time.UnixMicro(µs).UTC(), Network: network})
	}
	return list, nil
}

// AppendCheck appends a check in the format that parseCodeChecks reads.
func AppendCheck(buf []byte, c store.Check) []byte {
	return append(append(strconv.AppendInt(buf, c.At.UnixMicro(), 10), ' '), c.Network...)
}

// NullIfZero returns nil (NULL) for the zero value.
func NullIfZero[T comparable](x T) any {
	var zero T
	if x == zero {
		return nil
	}
	return x
}

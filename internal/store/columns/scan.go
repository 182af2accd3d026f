package columns

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// ScannerFor returns what to scan a column into a variable, given by its address. Of the zero value where
// the column may be NULL: a time, which is a timestamptz or µs since 1970, a recipient's hash, also
// of an empty value, and a UUID. A duration is a number of µs, and names are joined by commas.
func ScannerFor(variable any) any {
	switch variable.(type) {
	case *time.Time, *time.Duration, *[32]byte, *recipient.Hash, *[]string, *[]store.Check, *uuid.UUID:
		return fieldScanner{variable}
	}
	return variable
}

// fieldScanner is a variable that is not scanned as it is stored.
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
				*to = strings.Split(x, store.RuleSeparator)
			}
			return nil
		}
	case *[]store.Check:
		if x, ok := src.(string); ok || src == nil {
			*to, err = parseChecks(x)
			return err
		}
	case *uuid.UUID:
		return to.Scan(src)
	}
	return fmt.Errorf("store: a column is %T, which is not scanned into %T", src, f.to)
}

// parseChecks reads the checks of a verification: pairs of an instant, in µs since 1970, and a
// network, "1919191919191919 192.0.2.0/24", with commas between them. NULL is none.
func parseChecks(text string) (list []store.Check, err error) {
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

// AppendCheck appends a check as parseChecks reads it.
func AppendCheck(buf []byte, c store.Check) []byte {
	return append(append(strconv.AppendInt(buf, c.At.UnixMicro(), 10), ' '), c.Network...)
}

// NullIfZero returns nil, which is NULL, for the zero value, else x.
func NullIfZero[T comparable](x T) any {
	var zero T
	if x == zero {
		return nil
	}
	return x
}

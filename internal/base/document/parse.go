package document

import (
	"encoding"
	"encoding/hex"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// IsScalar reports whether a value of this type is a single value in the file. A map is not, nor is
// a struct with exported fields or a slice without encoding.TextUnmarshaler.
func IsScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return !slices.ContainsFunc(reflect.VisibleFields(t),
			func(f reflect.StructField) bool { return f.IsExported() })
	case reflect.Slice:
		return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	}
	return t.Kind() != reflect.Map
}

// parseInto checks a text by the type and the tags of a field, and sets v. problem is "" if the
// text is valid.
func (d *Decoder) parseInto(v reflect.Value, tag reflect.StructTag, text string) (problem string) {
	if v.Kind() == reflect.String {
		v.SetString(text)
	}
	if check := d.Checks[tag.Get("check")]; check != nil {
		problem = check(text)
	}
	if words := strings.Fields(tag.Get("oneof")); problem == "" && len(words) > 0 && !slices.Contains(words, text) {
		problem = "must be " + JoinOr(words) + DidYouMean(text, words)
	}
	if problem == "" && v.Kind() != reflect.String {
		problem = parseByType(v, tag, text)
	}
	return problem
}

func JoinOr(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// parseByType sets a field that is not a string. For problem, see parseInto.
func parseByType(v reflect.Value, tag reflect.StructTag, text string) (problem string) {
	switch into := v.Addr().Interface().(type) {
	case *time.Duration:
		*into, problem = parseDuration(text)
		if problem == "" {
			problem = checkRange(tag, *into, parseDuration)
		}
	case *int:
		*into, problem = parseInt(text)
		if problem == "" {
			problem = checkRange(tag, *into, parseInt)
		}
	case *int64:
		*into, problem = parseAmount(text)
	case *bool:
		*into = text == "true"
		if text != "true" && text != "false" {
			problem = "must be true or false"
		}
	case *time.Time:
		*into, problem = parseExpiry(text)
	case *netip.Prefix:
		*into, _ = ParseNetwork(text)
	case *[32]byte:
		_, _ = hex.Decode(into[:], []byte(text)) // the check in the tag has already accepted the text
	default:
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			into = v.Interface()
		}
		if err := into.(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
			problem = err.Error()
		}
	}
	return problem
}

func checkRange[T int | time.Duration](tag reflect.StructTag, v T, read func(string) (T, string)) string {
	least, rest, given := strings.Cut(tag.Get("range"), " ")
	most, _, _ := strings.Cut(strings.ReplaceAll(rest, ":", ","), ",")
	from, _ := read(least)
	to, _ := read(most)
	if !given || v >= from && v <= to || v == 0 && strings.Contains(rest, ", or 0") {
		return ""
	}
	return "must be from " + least + " to " + rest
}

func parseInt(text string) (i int, problem string) {
	i, err := strconv.Atoi(text)
	if err != nil {
		return 0, "must be a whole number"
	}
	return i, ""
}

// parseDuration parses a duration in Go's form, such as "60s" or "1h30m", in whole seconds. There
// is no unit for days. For problem, see parseInto.
func parseDuration(text string) (d time.Duration, problem string) {
	v, err := time.ParseDuration(text)
	switch {
	case err != nil && strings.Trim(text, "0123456789") == "":
		return 0, "needs a unit: s, m or h, as in 60s"
	case err != nil && (strings.HasSuffix(text, "d") || strings.HasSuffix(text, "w")):
		return 0, "write days and weeks in hours: 24h, 168h"
	case err != nil:
		return 0, "is not a duration such as 60s, 10m or 1h"
	case v%time.Second != 0:
		return 0, "must be whole seconds"
	}
	return v, ""
}

// parseExpiry parses a time, such as "2027-01-31T08:00:00Z", or a day, such as "2027-01-31". For a
// day, it returns the end of the day in UTC. For problem, see parseInto.
func parseExpiry(text string) (ends time.Time, problem string) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.AddDate(0, 0, 1), ""
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, "is not a day such as 2027-01-31 or a time such as 2027-01-31T08:00:00Z"
	}
	return at.UTC(), ""
}

// ParseNetwork accepts an address, too, as a network of one address. problem is "" if the text is
// valid.
func ParseNetwork(text string) (network netip.Prefix, problem string) {
	network, err := netip.ParsePrefix(text)
	if address, addrErr := netip.ParseAddr(text); err != nil && addrErr == nil && address.Zone() == "" {
		network, err = netip.PrefixFrom(address, address.BitLen()), nil
	}
	switch {
	case err != nil:
		return network, "is not a network such as 10.0.0.0/8 or fd00::/8"
	case network.Addr().Is4In6():
		return network, "is an IPv4 network in IPv6 form; write it as IPv4"
	}
	return network.Masked(), ""
}

const millionthsPerUnit = 1_000_000

var amountPattern = regexp.MustCompile(`^([0-9]{1,9})(?:\.([0-9]{1,6}))?$`)

// parseAmount returns an amount such as "0.045" in millionths. It uses no floating point, so the
// result is exact.
func parseAmount(text string) (millionths int64, problem string) {
	parts := amountPattern.FindStringSubmatch(text)
	if parts == nil {
		return 0, "must be an amount such as 0.045, with at most six decimals"
	}
	units, _ := strconv.ParseInt(parts[1], 10, 64)
	rest, _ := strconv.ParseInt((parts[2] + "000000")[:6], 10, 64)
	return units*millionthsPerUnit + rest, ""
}

func formatAmount(v int64) string {
	text := strconv.FormatInt(v/millionthsPerUnit, 10)
	if rest := v % millionthsPerUnit; rest > 0 {
		text += strings.TrimRight("."+strconv.FormatInt(millionthsPerUnit+rest, 10)[1:], "0")
	}
	return text
}

package config

import (
	"encoding"
	"encoding/hex"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones have their names where the system has no database of them, such as in a bare container
)

// leaf says of a type that it is a single value.
func leaf(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[netip.Prefix]() || t == reflect.TypeFor[Secret]()
	case reflect.Slice:
		return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	}
	return t.Kind() != reflect.Map
}

// set puts a text into a field, and says what is wrong with it.
func set(v reflect.Value, tag reflect.StructTag, text string) (problem string) {
	if v.Kind() == reflect.String {
		v.SetString(text)
	}
	if check := checks[tag.Get("check")]; check != nil {
		problem = check(text)
	}
	if words := strings.Fields(tag.Get("oneof")); problem == "" && len(words) > 0 && !slices.Contains(words, text) {
		problem = "must be " + either(words)
	}
	if problem == "" && v.Kind() != reflect.String {
		problem = parse(v, tag, text)
	}
	if wrong := tag.Get("wrong"); problem != "" && wrong != "" {
		return strings.Replace(wrong, "%s", plain(text), 1)
	}
	return problem
}

func either(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func parse(v reflect.Value, tag reflect.StructTag, text string) (problem string) {
	switch into := v.Addr().Interface().(type) {
	case *time.Duration:
		if *into, problem = parseDuration(text); problem == "" {
			problem = outside(tag, *into, parseDuration)
		}
	case *int:
		if *into, problem = parseInt(text); problem == "" {
			problem = outside(tag, *into, parseInt)
		}
	case *int64:
		*into, problem = parseAmount(text)
	case *bool:
		if *into = text == "true"; text != "true" && text != "false" {
			problem = "must be true or false"
		}
	case *time.Time:
		*into, problem = parseInstant(text)
	case **time.Location:
		*into, problem = parseZone(text)
	case *netip.Prefix:
		*into, _ = parseNetwork(text)
	case *[32]byte:
		_, _ = hex.Decode(into[:], []byte(text)) // checked by its tag
	case *Secret:
		*into = NewSecret(text)
	case *slog.Level:
		_ = into.UnmarshalText([]byte(text)) // checked by its tag; what is wrong leaves info
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

// outside says that a value is out of the range of its tag.
func outside[T int | time.Duration](tag reflect.StructTag, v T, read func(string) (T, string)) string {
	least, most, _ := strings.Cut(tag.Get("range"), " ")
	from, _ := read(least)
	to, _ := read(most)
	zero, text := tag.Get("zero"), "must be from "+least+" to "+most
	switch {
	case least == "" || v >= from && v <= to || v == 0 && zero != "":
		return ""
	case zero != "":
		text += ", or " + zero
	}
	return text + tag.Get("why")
}

func parseInt(text string) (int, string) {
	i, err := strconv.Atoi(text)
	if err != nil {
		return 0, "must be a whole number"
	}
	return i, ""
}

// parseDuration reads "60s", "1h30m": Go's form, in whole seconds.
func parseDuration(text string) (time.Duration, string) {
	v, err := time.ParseDuration(text)
	switch {
	case err != nil && strings.Trim(text, "0123456789") == "":
		return 0, "needs a unit: s, m or h, as in 60s"
	case err != nil && (strings.HasSuffix(text, "d") || strings.HasSuffix(text, "w")):
		return 0, "days and weeks are written in hours: 24h, 168h"
	case err != nil:
		return 0, "is not a duration such as 60s, 10m or 1h"
	case v%time.Second != 0:
		return 0, "must be whole seconds"
	}
	return v, ""
}

// parseInstant reads "2027-01-31", which lasts to the end of that day in UTC, or "2027-01-31T08:00:00Z".
func parseInstant(text string) (time.Time, string) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.AddDate(0, 0, 1), ""
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, "is not a day such as 2027-01-31 or a time such as 2027-01-31T08:00:00Z"
	}
	return at.UTC(), ""
}

// parseZone takes names of the IANA database. Local is refused: it would be another zone on every machine.
func parseZone(text string) (*time.Location, string) {
	z, err := time.LoadLocation(text)
	if err != nil || text == "" || text == "Local" {
		return nil, "there is no time zone " + plain(text) + "; they have names such as Asia/Shanghai"
	}
	return z, ""
}

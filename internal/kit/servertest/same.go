package servertest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Same fails the test with both values unless they are equal. Of two structs, it prints only the
// fields that differ.
func Same[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s", what, Difference(got, want, func(got, want any) bool { return got == want }))
	}
}

// Difference prints two unequal values. Of two structs, and of the structs in two lists of one
// length, it prints only the fields that differ by equal.
func Difference[T any](got, want T, equal func(got, want any) bool) string {
	return difference("", reflect.ValueOf(&got).Elem(), reflect.ValueOf(&want).Elem(), equal)
}

// difference does not take apart a value that has its own text, such as a time.Time.
func difference(name string, got, want reflect.Value, equal func(got, want any) bool) string {
	_, isStringer := got.Interface().(fmt.Stringer)
	_, isError := got.Interface().(error)
	hasText := isStringer || isError
	var parts []string
	compare := func(part string, g, w reflect.Value) {
		if !equal(g.Interface(), w.Interface()) {
			parts = append(parts, difference(strings.TrimPrefix(name+part, "."), g, w, equal))
		}
	}
	switch {
	case hasText:
	case got.Kind() == reflect.Struct:
		for i := range got.NumField() {
			compare("."+got.Type().Field(i).Name, readable(got.Field(i)), readable(want.Field(i)))
		}
	case got.Kind() == reflect.Slice && got.Type().Elem().Kind() == reflect.Struct && got.Len() == want.Len():
		for i := range got.Len() {
			compare(fmt.Sprintf("[%d]", i), got.Index(i), want.Index(i))
		}
	}
	if len(parts) > 0 {
		return strings.Join(parts, "; ")
	}
	verb := "%+v"
	if got.Kind() == reflect.String && !hasText && name != "" {
		verb = "%q"
	}
	g, w := fmt.Sprintf(verb, got.Interface()), fmt.Sprintf(verb, want.Interface())
	const long = 100
	switch {
	case name != "":
		return name + " " + g + ", want " + w
	case len(g)+len(w) > long:
		return "\n got " + g + "\nwant " + w
	}
	return g + ", want " + w
}

// readable returns an addressable value so that its methods can be called even if it is an
// unexported field.
func readable(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
}

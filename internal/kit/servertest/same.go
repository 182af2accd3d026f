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
		t.Errorf("%s: %s", what, difference("", reflect.ValueOf(&got).Elem(), reflect.ValueOf(&want).Elem()))
	}
}

// difference prints two unequal values. A value that has its own text, such as a time.Time, is not
// taken apart.
func difference(name string, got, want reflect.Value) string {
	_, isStringer := got.Interface().(fmt.Stringer)
	_, isError := got.Interface().(error)
	switch hasText := isStringer || isError; {
	case name == "" && (hasText || got.Kind() != reflect.Struct):
		return fmt.Sprintf("%v, want %v", got.Interface(), want.Interface())
	case got.Kind() == reflect.String && !hasText:
		return fmt.Sprintf("%s %q, want %q", name, got.Interface(), want.Interface())
	case hasText || got.Kind() != reflect.Struct:
		return fmt.Sprintf("%s %v, want %v", name, got.Interface(), want.Interface())
	}
	var fields []string
	for i := range got.NumField() {
		if g, w := readable(got.Field(i)), readable(want.Field(i)); !g.Equal(w) {
			fields = append(fields, difference(strings.TrimPrefix(name+"."+got.Type().Field(i).Name, "."), g, w))
		}
	}
	return strings.Join(fields, "; ")
}

// readable returns an addressable value so that its methods can be called even if it is an
// unexported field.
func readable(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
}

package storetest

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Show writes a value with its times in µs, so that values compare as texts and differences can be read.
func Show(v any) string {
	var b strings.Builder
	write(&b, reflect.ValueOf(v))
	return b.String()
}

func write(b *strings.Builder, v reflect.Value) {
	if !v.IsValid() {
		b.WriteString("nil")
		return
	}
	if v.CanInterface() {
		switch x := v.Interface().(type) {
		case time.Time:
			fmt.Fprintf(b, "%s(%v)", x.Format(time.RFC3339Nano), x.Location())
			return
		case []byte:
			fmt.Fprintf(b, "%x", x)
			return
		case fmt.Stringer:
			if v.Kind() != reflect.Pointer {
				b.WriteString(x.String())
				return
			}
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		write(b, v.Elem())
	case reflect.Struct:
		b.WriteString("{")
		for i := range v.NumField() {
			fmt.Fprintf(b, " %s:", v.Type().Field(i).Name)
			write(b, v.Field(i))
		}
		b.WriteString("}")
	case reflect.Slice, reflect.Array:
		b.WriteString("[")
		for i := range v.Len() {
			b.WriteString("\n  ")
			write(b, v.Index(i))
		}
		b.WriteString("]")
	case reflect.String:
		fmt.Fprintf(b, "%q", v.String())
	default:
		fmt.Fprint(b, v.Interface())
	}
}

package app

import (
	"errors"
	"testing"
)

// A file is read when it has stayed as it is, whole, and once.
func TestAFileIsNotReadHalfWay(t *testing.T) {
	content, failure := "", errors.New("gone")
	var err error
	w := watchedFile{name: "f", read: func(name string) ([]byte, error) {
		if name != "f" {
			return []byte("other " + name), nil
		}
		return []byte(content), err
	}}
	steps := []struct {
		content string
		err     error
		want    string // what would be loaded; "-" for nothing
	}{
		{"one", nil, "-"}, {"one", nil, "one"}, {"one", nil, "-"},
		{"tw", nil, "-"}, {"two", nil, "-"}, {"two", nil, "two"},
		{"thr", nil, "-"}, {"two", nil, "-"}, {"two", nil, "-"},
		{"", failure, "-"}, {"", failure, "gone"}, {"", failure, "-"},
		{"", nil, "-"}, {"", nil, ""}, {"two", nil, "-"}, {"two", nil, "two"},
	}
	for i, step := range steps {
		content, err = step.content, step.err
		read, got := w.changed(), "-"
		content, err = "changed since", nil
		if read != nil {
			raw, failed := read("f")
			if got = string(raw); failed != nil {
				got = failed.Error()
			}
			if raw, _ := read("secret"); string(raw) != "other secret" {
				t.Errorf("another file: %s", raw)
			}
		}
		if got != step.want {
			t.Fatalf("step %d: %q, want %q", i, got, step.want)
		}
	}
	if (&watchedFile{read: w.read}).changed() != nil {
		t.Error("without a file there is nothing to read")
	}
}

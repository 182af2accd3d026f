package logs_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"

	"sendcode/internal/base/logs"
)

const (
	trace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent = "00-" + trace + "-00f067aa0ba902b7-01"
)

// A well-formed ID is adopted. Otherwise the request gets the ID of the trace or, without a trace,
// a new ID, from which the time can be read.
func TestAdoptRequestID(t *testing.T) {
	const made = "made"
	for _, c := range []struct{ header, parent, want string }{
		{"order-7f3a9c2e41b0", "", "order-7f3a9c2e41b0"},
		{"order-7f3a9c2e41b0", parent, "order-7f3a9c2e41b0"},
		{"0123456789abcdef", "", "0123456789abcdef"},
		{strings.Repeat("x", 64), "", strings.Repeat("x", 64)},
		{"", "", made},
		{"short", "", made},
		{"008613800138000", "", made},
		{strings.Repeat("x", 65), "", made},
		{"ana.maria@example.com", "", made},
		{"two\nlines-7f3a9c2e41b0", "", made},
		{"emoji-😀-7f3a9c2e41b0", "", made},
		{"a b c d e f g h i j", "", made},
		{"", parent, trace},
		{"bad id", parent, trace},
		{"", "cc-" + trace + "-00f067aa0ba902b7-01-more", trace},
		{"", "ff-" + trace + "-00f067aa0ba902b7-01", made},
		{"", parent + "-more", made},
		{"", parent + "0", made},
		{"", strings.ToUpper(parent), made},
		{"", "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01", made},
		{"", "00-" + trace + "-0000000000000000-01", made},
		{"", "00-" + trace[:31] + "\n-00f067aa0ba902b7-01", made},
		{"", parent[:54], made},
		{"", "00-" + trace + "-00f067aa0ba902b7-0x", made},
	} {
		ctx, first := logs.WithRequestID(t.Context(), c.header, c.parent)
		if own, err := uuid.Parse(first); err != nil || own.Version() != 7 || logs.RequestID(ctx) != first {
			t.Errorf("%q, %q: %q before it is adopted", c.header, c.parent, first)
		}
		id := logs.AdoptRequestID(ctx)
		own, err := uuid.Parse(id)
		if c.want == made && (err != nil || own.Version() != 7) || c.want != made && id != c.want ||
			logs.RequestID(ctx) != id || !logs.IsRequestID(id) {
			t.Errorf("%q, %q: %q, want %s", c.header, c.parent, id, c.want)
		}
	}
	if logs.RequestID(t.Context())+logs.AdoptRequestID(t.Context()) != "" {
		t.Error("there is an ID of no request")
	}
}

// Each log line of a request has the request's ID once, and the ID of its trace once. AddAttrs adds
// attributes to one request only.
func TestLogLinesHaveRequestID(t *testing.T) {
	var out bytes.Buffer
	logger := logs.AddRequestID(logs.AddRequestID(slog.New(slog.NewJSONHandler(&out, nil))))
	ctx, _ := logs.WithRequestID(t.Context(), "order-7f3a9c2e41b0", parent)
	id := logs.AdoptRequestID(ctx)
	logger.With("part", "log").WarnContext(ctx, "within")
	for _, want := range []string{`"request_id":"` + id + `"`, `"trace_id":"` + trace + `"`, `"part":"log"`} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("%s is not there once: %s", want, &out)
		}
	}
	out.Reset()
	logger.Info("of no request")
	logs.AddAttrs(t.Context(), slog.String("app", "lost"))
	logs.AddAttrs(ctx, slog.String("app", "shop"))
	if notes := logs.Attrs(ctx); strings.Contains(out.String(), "_id") || len(notes) != 1 ||
		logs.Attrs(t.Context()) != nil {
		t.Errorf("%s, %v", &out, notes)
	}
}

package apptest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector takes spans by OTLP over HTTP.
type Collector struct {
	*httptest.Server
	mu    sync.Mutex
	raw   []byte
	spans []Span
}

// Span is what the collector got. IDs are in hexadecimal.
type Span struct {
	Trace, ID, Parent, Name string
	Kind                    string // "server", "client" or "internal"
	Failed                  bool
	Attributes              map[string]string
}

// NewCollector starts a collector on loopback.
func NewCollector(t *testing.T) *Collector {
	t.Helper()
	c := &Collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got collector.ExportTraceServiceRequest
		raw, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(raw, &got) != nil {
			t.Errorf("no spans came to %s: %v", r.URL.Path, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw = append(c.raw, raw...)
		for _, resource := range got.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					c.spans = append(c.spans, spanOf(s))
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func spanOf(s *v1.Span) Span {
	span := Span{
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
		Parent: hex.EncodeToString(s.GetParentSpanId()),
		Name:   s.GetName(), Kind: strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_")),
		Failed: s.GetStatus().GetCode() == v1.Status_STATUS_CODE_ERROR, Attributes: map[string]string{},
	}
	for _, a := range s.GetAttributes() {
		span.Attributes[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return span
}

// Spans returns the spans so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Raw returns all bytes so far.
func (c *Collector) Raw() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.raw)
}

// Tree draws a trace, a span a line, each below its parent: its name and, in parentheses, what mail
// server or carrier it is about and how it ended. Children have the order of their ends.
func (c *Collector) Tree(trace string) string {
	var tree strings.Builder
	spans := c.Spans()
	var draw func(parent string, root bool, indent string)
	draw = func(parent string, root bool, indent string) {
		for _, s := range spans {
			known := slices.ContainsFunc(spans, func(p Span) bool { return p.Trace == s.Trace && p.ID == s.Parent })
			if s.Trace != trace || root == known || !root && s.Parent != parent {
				continue
			}
			tree.WriteString(indent + s.Name)
			if o := s.Attributes["sendcode.outcome"]; o != "" {
				tree.WriteString(" (" + o + ")")
			}
			tree.WriteString("\n")
			draw(s.ID, false, indent+"  ")
		}
	}
	draw("", true, "")
	return tree.String()
}

package message

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestNothingThatHoldsACodePrintsIt(t *testing.T) {
	req := Request{Notify: Glance, Data: shop()}
	m := render(t, renderer(t), req)
	var out bytes.Buffer
	for _, v := range []any{req, &req, req.Data, &req.Data, m, &m, []Message{m}, map[string]Data{"x": req.Data}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb, v)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "mail", m, "data", req.Data)
	for _, form := range []string{req.Data.Code, fmt.Sprintf("%x", req.Data.Code)} {
		if strings.Contains(out.String(), form) {
			t.Errorf("the code is printed as %q", form)
		}
	}
	if !strings.Contains(out.String(), redacted) {
		t.Error("nothing is printed at all")
	}
}

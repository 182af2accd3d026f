package web

import (
	"html/template"
	"strings"
	"testing"
	"time"

	"sendcode/quota"
)

func draw(t *testing.T, name string, rows []Pips) string {
	t.Helper()
	tmpl, err := template.ParseFS(FS, "shared/pips.html")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := tmpl.ExecuteTemplate(&b, name, rows); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func state(limit, used int, wait time.Duration) quota.State {
	return quota.State{Rule: quota.Rule{Limit: limit}, Used: used, RetryAfter: wait}
}

func TestPipsOf(t *testing.T) {
	cases := map[string]struct {
		state               quota.State
		marks, used         int
		blocked, drawnAsBar bool
	}{
		"nothing spent":          {state(5, 0, 0), 5, 0, false, false},
		"some spent":             {state(5, 2, 0), 5, 2, false, false},
		"all spent":              {state(5, 5, time.Second), 5, 5, true, false},
		"limit lowered":          {state(3, 5, time.Second), 3, 3, true, false},
		"the longest row":        {state(12, 1, 0), 12, 1, false, false},
		"too many for marks":     {state(13, 4, 0), 0, 0, false, true},
		"too many and all spent": {state(100, 100, time.Microsecond), 0, 0, true, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := PipsOf(c.state)
			if p.Used > p.Limit {
				t.Errorf("%d of %d used", p.Used, p.Limit)
			}
			p.Spoken = "in words"
			for _, tmpl := range []string{"pips", "pips-marks"} {
				html := draw(t, tmpl, []Pips{p})
				if got := strings.Count(html, `<i class="pip`); got != c.marks {
					t.Errorf("%s: %d marks, want %d", tmpl, got, c.marks)
				}
				if got := strings.Count(html, `pip used`); got != c.used {
					t.Errorf("%s: %d used, want %d", tmpl, got, c.used)
				}
				if got := strings.Contains(html, "blocked"); got != c.blocked {
					t.Errorf("%s: blocked %v, want %v", tmpl, got, c.blocked)
				}
				if got := strings.Contains(html, "<svg"); got != c.drawnAsBar {
					t.Errorf("%s: bar %v, want %v", tmpl, got, c.drawnAsBar)
				}
				if !strings.Contains(html, "in words") {
					t.Errorf("%s: the marks are not said in words", tmpl)
				}
			}
		})
	}
}

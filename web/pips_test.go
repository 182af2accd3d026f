package web

import (
	"fmt"
	"html/template"
	"strings"
	"testing"
	"time"

	"sendcode/quota"
)

// Both templates draw the same marks: one for each event that the rule allows, or a bar if there
// are too many of these.
func TestPipsOf(t *testing.T) {
	templates := template.Must(template.ParseFS(FS, "shared/pips.html"))
	for what, c := range map[string]struct {
		limit, used int
		wait        time.Duration
		want        string // marks, those of them that are used, whether the row is blocked, whether it is a bar
	}{
		"some spent":             {5, 2, 0, "5 2 false false"},
		"all spent":              {5, 5, time.Second, "5 5 true false"},
		"limit lowered":          {3, 5, time.Second, "3 3 true false"},
		"the longest row":        {12, 1, 0, "12 1 false false"},
		"too many and all spent": {13, 13, time.Microsecond, "0 0 true true"},
	} {
		p := PipsOf(quota.State{Rule: quota.Rule{Limit: c.limit}, Used: c.used, RetryAfter: c.wait})
		p.Spoken = "in words"
		for _, name := range []string{"pips", "pips-marks"} {
			var b strings.Builder
			if err := templates.ExecuteTemplate(&b, name, []Pips{p}); err != nil {
				t.Fatal(err)
			}
			html := b.String()
			got := fmt.Sprint(strings.Count(html, `<i class="pip`), " ", strings.Count(html, `pip used`), " ",
				strings.Contains(html, "blocked"), " ", strings.Contains(html, "<svg"))
			if got != c.want || !strings.Contains(html, "in words") {
				t.Errorf("%s, %s: %s, want %s: %s", what, name, got, c.want, html)
			}
		}
	}
}

package web

import (
	"html/template"
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/quota"
)

// Both templates draw the same marks: one for each event that the rule allows, or a bar if there
// are too many of these.
func TestPipsOf(t *testing.T) {
	templates := template.Must(template.ParseFS(FS, "shared/pips.html"))
	type row struct {
		marks, used  int // marks of all places, and of the used ones
		blocked, bar bool
	}
	for what, c := range map[string]struct {
		limit, used int
		wait        time.Duration
		want        row
	}{
		"some spent":             {5, 2, 0, row{5, 2, false, false}},
		"all spent":              {5, 5, time.Second, row{5, 5, true, false}},
		"limit lowered":          {3, 5, time.Second, row{3, 3, true, false}},
		"the longest row":        {12, 1, 0, row{12, 1, false, false}},
		"too many and all spent": {13, 13, time.Microsecond, row{0, 0, true, true}},
	} {
		p := PipsOf(quota.State{Rule: quota.Rule{Limit: c.limit}, Used: c.used, RetryAfter: c.wait})
		p.Spoken = "in words"
		for _, name := range []string{"pips", "pips-marks"} {
			var b strings.Builder
			if err := templates.ExecuteTemplate(&b, name, []Pips{p}); err != nil {
				t.Fatal(err)
			}
			html := b.String()
			got := row{
				strings.Count(html, `<i class="pip`), strings.Count(html, `pip used`),
				strings.Contains(html, "blocked"), strings.Contains(html, "<svg"),
			}
			servertest.Same(t, what+", "+name, got, c.want)
			servertest.Same(t, what+", "+name+": in words", strings.Contains(html, "in words"), true)
		}
	}
}

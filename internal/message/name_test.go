package message

import (
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for _, s := range []string{
		"", "Shop", "小店", "A & B's <shop>", "Node.js", "Dr. Smith", "v1.2.3", "Shop 2.0", "St. Anna", "3.14", "a.b.c", "U.S. Mail",
		strings.Repeat("宽", 64), "你好。谢谢", "24/7", "C++", "e.g. this", "...", "Straße", "क्षि",
	} {
		if err := CheckName(s); err != nil {
			t.Errorf("CheckName(%q): %v", s, err)
		}
	}
	for name, s := range map[string]string{
		"65 characters":       strings.Repeat("a", 65),
		"line feed":           "Shop\nBcc: x",
		"tab":                 "Shop\t",
		"c1":                  "Shop\u0085",
		"bidi override":       "Shop\u202e",
		"zero-width":          "ev\u200bil",
		"not utf-8":           "Shop\xff",
		"url":                 "https://evil.example",
		"url in words":        "Win now at HTTP://X",
		"www":                 "www.evil",
		"domain":              "Prize at evil.com!",
		"domain before a dot": "Go to evil.com.",
		"subdomain":           "a.b.evil.co.uk",
		"mail address":        "ana@evil.com",
		"mailto":              "mailto:ana",
		"full-width":          "ｅｖｉｌ．ｃｏｍ",
		"ideographic dot":     "evil。com",
		"idn":                 "例子.中国",
		"punycode":            "a.xn--fiqs8s",
		"idn label":           "bücher.de",
		"ipv4":                "Go to 192.0.2.1",
		"underscore":          "my_shop.com",
	} {
		err := CheckName(s)
		if err == nil {
			t.Errorf("%s is accepted", name)
			continue
		}
		if strings.Contains(strings.ToLower(err.Error()), "evil") {
			t.Errorf("%s: the error repeats the text: %v", name, err)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	r := renderer(t)
	for name, c := range map[string]struct {
		change func(*Request)
		want   string
	}{
		"no app":             {func(q *Request) { q.Data.App = "" }, "app: empty"},
		"blank app":          {func(q *Request) { q.Data.App = "  " }, "app: empty"},
		"app with a url":     {func(q *Request) { q.Data.App = "evil.com" }, "app: a URL"},
		"purpose with a url": {func(q *Request) { q.Data.Purpose = "see http://x" }, "purpose: a URL"},
		"support with a url": {func(q *Request) { q.Data.Support = "evil.com" }, "support: a URL"},
		"no time left":       {func(q *Request) { q.Data.Minutes = 0 }, "minutes: less than 1"},
		"short code":         {func(q *Request) { q.Data.Code = "733" }, "code: not 4 to 16"},
		"long code":          {func(q *Request) { q.Data.Code = strings.Repeat("7", 17) }, "code: not 4 to 16"},
		"code with a space":  {func(q *Request) { q.Data.Code = "733 914" }, "code: not 4 to 16"},
		"wide digits":        {func(q *Request) { q.Data.Code = "７３３９" }, "code: not 4 to 16"},
		"unknown notify":     {func(q *Request) { q.Notify = "loud" }, "notify"},
	} {
		t.Run(name, func(t *testing.T) {
			req := Request{Notify: Glance, Data: shop()}
			c.change(&req)
			m, err := r.Render(req)
			if err == nil || m != (Message{}) {
				t.Fatalf("rendered %+v", m)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want %q", err, c.want)
			}
			if req.Data.Code != "" && strings.Contains(err.Error(), req.Data.Code) {
				t.Error("the error holds the code")
			}
		})
	}
}

package server

import (
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/text/language"

	"sendcode/internal/base/texts"
	"sendcode/internal/kit/servertest"
)

// reasonsInSource matches the reasons of invalid fields in the source of the product.
var reasonsInSource = regexp.MustCompile(
	`(?:Invalid|newInvalidError|codeError|lengthError)\((?:[^"\n,]*, |"[\w.-]*"(?: \+ \w+)?, )?"([a-z_]+)"(?:, ["` + "`" +
		`]|\)|,\n|, [\w.]+[()])` + `|(?:Reason: |"reason": |Reason(?:CountryNotServed|VoIP|Disposable) *= )"([a-z_]+)"`)

// sourceReasons returns all reasons of problems about a field.
func sourceReasons(t *testing.T) []string {
	all := map[string]bool{}
	for _, dir := range strings.Fields("base codes limit verify http") {
		err := fs.WalkDir(os.DirFS("../../"+dir), ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
				return err
			}
			file, err := fs.ReadFile(os.DirFS("../../"+dir), path)
			for _, found := range reasonsInSource.FindAllSubmatch(file, -1) {
				all[string(found[1])+string(found[2])] = true
			}
			return err
		})
		servertest.OK(t, err)
	}
	return slices.Sorted(maps.Keys(all))
}

// englishWord matches words that occur only in English texts. The test first removes the matches of
// technicalTerms, which may be English in every language.
var englishWord = regexp.MustCompile(`(?i)\b(the|is|and|of|not|too|this|field|request|must)\b`)

var technicalTerms = regexp.MustCompile("`[^`]+`|Idempotency-Key|JSON|UTF-8|API|IP")

var latinLetters = regexp.MustCompile(`[A-Za-z]{2}`)

func TestEveryProblemInEveryLanguage(t *testing.T) {
	reasons := sourceReasons(t)
	for _, some := range strings.Fields(
		"too_long too_short not_digits wrong_type missing voip not_kept out_of_range mismatch landline domain_typo") {
		if !slices.Contains(reasons, some) {
			t.Errorf("the source's reasons lack %s: %v", some, reasons)
		}
	}
	members := map[string]any{"blocked_by": "hour", "scope": "send"}
	for _, w := range texts.PageLanguages()[1:] {
		used := map[string]bool{}
		script, _ := language.Make(w.Lang()).Script()
		look := func(kind ProblemKind, name string, more map[string]any) string {
			p := &Problem{Kind: kind, Detail: "English.", Wait: 42 * time.Second, Extra: maps.Clone(members)}
			maps.Copy(p.Extra, more)
			p.Variant, _ = more["variant"].(string)
			localized := p.in(w)
			used[kind.Slug+".title"], used[name] = true, true
			for _, text := range []string{localized.Kind.Title, localized.Detail} {
				plain := technicalTerms.ReplaceAllString(text, "")
				if text == "" || strings.ContainsAny(text, "{}<>%") && !strings.Contains(text, "< >") || englishWord.MatchString(plain) ||
					script.String() != "Latn" && latinLetters.MatchString(plain) {
					t.Errorf("%s in %s: %q", name, w.Lang(), text)
				}
			}
			if localized.Kind.Title == kind.Title || localized.Kind.Slug != kind.Slug ||
				localized.Kind.Status != kind.Status || p.Detail != "English." {
				t.Errorf("%s in %s: %+v", name, w.Lang(), localized)
			}
			return localized.Detail
		}
		for _, kind := range problemKinds {
			look(kind, kind.Slug, nil)
		}
		general := look(InvalidField, InvalidField.Slug, nil)
		for _, reason := range reasons {
			if got := look(InvalidField, "invalid-field."+reason, map[string]any{"reason": reason}); got == general {
				t.Errorf("reason %s in %s has no text of its own", reason, w.Lang())
			}
		}
		if got := look(Unavailable, "unavailable.uncertain",
			map[string]any{"may_have_counted": true}); got == look(Unavailable, "unavailable", nil) {
			t.Errorf("an uncertain outcome in %s: %s", w.Lang(), got)
		}
		if got := look(QuotaExceeded, "quota-exceeded.backoff",
			map[string]any{"variant": "backoff"}); got == look(QuotaExceeded, "quota-exceeded", nil) {
			t.Errorf("sends that fail for a reason of ours in %s: %s", w.Lang(), got)
		}
		for key := range w.Section(texts.ProblemsSection) {
			if !used[key] {
				t.Errorf("%s in %s is of no problem", key, w.Lang())
			}
		}
	}
}

func TestLanguageOfProblems(t *testing.T) {
	e, _ := testServer(t)
	refusal := &Problem{Kind: tooManyRequests, Detail: "Try again in {wait}.", Wait: 42 * time.Second}
	e.GET("/v1/x", func(echo.Context) error { return refusal })
	for header, want := range map[string][3]string{
		"": {"en", "Too many requests", "Try again in 42 s."}, "*": {"en", "Too many requests", "Try again in 42 s."},
		"sux, akk;q=0.5": {"en", "Too many requests", "Try again in 42 s."},
		"en, es;q=0.5":   {"en", "Too many requests", "Try again in 42 s."},
		"zh-CN,en;q=0.5": {"zh-Hans", "请求过多", "来自您网络的请求过多。请在 42 秒后再试。"},
		"es;q=0, zh":     {"zh-Hans", "请求过多", "来自您网络的请求过多。请在 42 秒后再试。"},
		"es-MX":          {"es", "Demasiadas peticiones", "Llegaron demasiadas peticiones desde tu red. Prueba otra vez dentro de 42 s."},
		"sux, ar;q=0.1":  {"ar", "طلبات كثيرة جدًا", "جاءت من شبكتك طلبات كثيرة. أعد المحاولة بعد 42 ث."},
	} {
		w := get(e, "/v1/x", func(r *http.Request) { r.Header.Set("Accept-Language", header) })
		var p map[string]any
		servertest.OK(t, json.Unmarshal(w.Body.Bytes(), &p))
		if h := w.Header(); h.Get("Content-Language") != want[0] || !slices.Contains(h.Values("Vary"), "Accept-Language") ||
			h.Get("Content-Type") != "application/problem+json" || h.Get("Retry-After") != "42" || w.Code != http.StatusTooManyRequests {
			t.Errorf("%q: %d %v", header, w.Code, h)
		}
		if p["title"] != want[1] || p["detail"] != want[2] ||
			p["type"] != "/problems/too-many-requests" || p["retry_after"] != 42.0 {
			t.Errorf("%q: %v", header, p)
		}
	}
	if refusal.Kind != tooManyRequests {
		t.Error("a translation changed the problem itself")
	}
}

// A wait of a minute or more is given in hours and minutes, rounded up.
func TestProblemWaitInHoursAndMinutes(t *testing.T) {
	for seconds, want := range map[int]string{42: "42 s", 60: "1 min", 61: "2 min", 3600: "1 h", 83374: "23 h 10 min"} {
		p := &Problem{Kind: QuotaExceeded, Detail: "{wait}", Wait: time.Duration(seconds) * time.Second}
		servertest.Same(t, "in English", p.InEnglish(), want)
	}
	p := &Problem{Kind: QuotaExceeded, Wait: 83374 * time.Second, Extra: map[string]any{"blocked_by": "day"}}
	for lang, want := range map[string]string{"zh-Hans": "23 小时 10 分钟后", "es": "dentro de 23 h 10 min.", "ar": "بعد 23 س 10 د."} {
		if got := p.in(texts.PageTextsFor(lang)).Detail; !strings.Contains(got, want) {
			t.Errorf("%s: %s", lang, got)
		}
	}
}

package admin

import (
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/store"
	assets "sendcode/web/admin"
)

var placeholder = regexp.MustCompile(`\{[a-z]*\}`)

func TestLanguagesSayTheSame(t *testing.T) {
	names := func(s string) []string {
		found := placeholder.FindAllString(s, -1)
		slices.Sort(found)
		return found
	}
	for key, text := range english.texts {
		other, ok := chinese.texts[key]
		if !ok {
			t.Errorf("%s has no Chinese", key)
		}
		if !slices.Equal(names(text), names(other)) {
			t.Errorf("%s: %v in English, %v in Chinese", key, names(text), names(other))
		}
		if key != "sentence.space" && (text == "" || other == "") {
			t.Errorf("%s is empty", key)
		}
	}
	for key := range chinese.texts {
		if _, ok := english.texts[key]; !ok && !strings.HasPrefix(key, "search.reason.") {
			t.Errorf("%s has no English", key)
		}
	}
}

// Every text that a page names exists, whichever branch of the template names it.
func TestPagesNameTextsThatExist(t *testing.T) {
	used := map[string]bool{}
	files, err := fs.Glob(assets.FS, "*.html")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		body, err := fs.ReadFile(assets.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`W\.(?:T|Say) "([^"]*)"`).FindAllStringSubmatch(string(body), -1) {
			used[m[1]] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(used)) {
		if _, err := english.T(key); err != nil {
			t.Error(err)
		}
	}
	if _, err := english.T("none"); err == nil {
		t.Error("a text that does not exist is no error")
	}
}

func TestEveryStateHasAWordAndASign(t *testing.T) {
	for _, s := range statuses {
		if english.texts["status."+string(s)] == "" || signs[s] == "" {
			t.Errorf("%s has no word or sign", s)
		}
	}
	v := viewOf(store.Send{Status: "delivered", Reason: "new_word"}, english)
	if v.State.Word != "delivered" || v.Why != "new_word" {
		t.Errorf("words of a later version are lost: %+v", v)
	}
}

func TestWait(t *testing.T) {
	for d, is := range map[time.Duration]string{
		0: "0 s", time.Nanosecond: "1 s", 41713 * time.Millisecond: "42 s", 59*time.Second + 1: "1 min", time.Minute: "1 min",
		785 * time.Second: "13 min 5 s", time.Hour - time.Second: "59 min 59 s", time.Hour: "1 h", 3*time.Hour + 20*time.Minute: "3 h 20 min",
		3*time.Hour + 19*time.Minute + 1: "3 h 20 min", 24 * time.Hour: "1 d", 52 * time.Hour: "2 d 4 h",
	} {
		if got := english.wait(d); got != is {
			t.Errorf("%v: %q, want %q", d, got, is)
		}
	}
	if got := chinese.wait(785 * time.Second); got != "13 分 5 秒" {
		t.Errorf("in Chinese: %q", got)
	}
}

func TestTook(t *testing.T) {
	for d, is := range map[time.Duration]string{
		0: "–", 400 * time.Microsecond: "0.4 ms", 184 * time.Millisecond: "184 ms", 2100 * time.Millisecond: "2.1 s", 61 * time.Second: "1 min 1 s",
	} {
		if got := english.took(d); got != is {
			t.Errorf("%v: %q, want %q", d, got, is)
		}
	}
}

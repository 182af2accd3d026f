package console

import (
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"testing"

	"sendcode/internal/store"
	"sendcode/internal/texts"
	assets "sendcode/web/admin"
)

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
		if _, err := texts.For("").T(key); err != nil {
			t.Error(err)
		}
	}
	if _, err := texts.For("").T("none"); err == nil {
		t.Error("a text that does not exist is no error")
	}
}

func TestEveryStateHasAWordAndASign(t *testing.T) {
	for _, s := range statuses {
		if texts.For("").Get("status."+string(s)) == "" || signs[s] == "" {
			t.Errorf("%s has no word or sign", s)
		}
	}
	v := viewOf(store.Send{Status: "delivered", Reason: "new_word"}, texts.For(""))
	if v.State.Word != "delivered" || v.Why != "new_word" {
		t.Errorf("words of a later version are lost: %+v", v)
	}
}

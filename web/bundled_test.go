package web_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/servertest"
)

var update = flag.Bool("update", false, "write the bundled files anew")

// Each file in bundled/ is what pagetest.Bundle makes of the module or style sheet with the same
// name. widget/texts.json names the texts that each module of the widget uses.
func TestBundled(t *testing.T) {
	files := map[string][]byte{}
	named := map[string][]string{}
	for _, name := range []string{
		"static/tokens.css", "static/pips.css", "static/page.css", "static/mailbox.css",
		"static/docs.css",
		"static/page.js", "static/mailbox.js", "static/docs.js",
		"widget/send-code.js", "widget/code.js", "widget/phones.js", "widget/human.js", "widget/client.js",
	} {
		plain, err := pagetest.Bundle(os.DirFS("."), name, false)
		servertest.OK(t, err)
		if files[name], err = pagetest.Bundle(os.DirFS("."), name, true); err != nil {
			t.Fatal(err)
		}
		if path.Dir(name) == "widget" {
			var texts []string
			for _, found := range regexp.MustCompile(`\.([A-Z]\w+)`).FindAllSubmatch(plain, -1) {
				texts = append(texts, string(found[1]))
			}
			slices.Sort(texts)
			named[strings.TrimSuffix(path.Base(name), ".js")] = slices.Compact(texts)
		}
	}
	list, err := json.MarshalIndent(named, "", "\t")
	servertest.OK(t, err)
	files["widget/texts.json"] = append(list, '\n')
	for name, want := range files {
		file := filepath.Join("bundled", filepath.FromSlash(name))
		if *update {
			servertest.OK(t, os.WriteFile(file, want, 0o644))
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale, run go generate ./web: %v", file, err)
		}
	}
}

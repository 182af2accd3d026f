package pagetest

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// Bundle returns the file entry together with all files that it imports: modules, and style sheets,
// whose text is the default import. URLs in style sheets are left unchanged. The error lists all
// faults, each with file and line.
func Bundle(files fs.FS, entry string, minified bool) ([]byte, error) {
	built := api.Build(api.BuildOptions{
		EntryPoints: []string{entry}, Outdir: "/", Bundle: true, Format: api.FormatESModule, Target: api.ES2022,
		MinifyWhitespace: minified, MinifyIdentifiers: minified, MinifySyntax: minified,
		LegalComments: api.LegalCommentsNone, Charset: api.CharsetUTF8,
		Plugins: []api.Plugin{{Name: "embedded", Setup: func(b api.PluginBuild) { resolveWithin(b, files) }}},
	})
	if err := joinMessages(built.Errors); err != nil {
		return nil, fmt.Errorf("bundle of %s: %w", entry, err)
	}
	return built.OutputFiles[0].Contents, nil
}

// resolveWithin makes esbuild read modules from the parameter files only, not from the disk.
func resolveWithin(b api.PluginBuild, files fs.FS) {
	b.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		name := path.Clean(a.Path)
		if a.Kind != api.ResolveEntryPoint {
			name = path.Join(path.Dir(a.Importer), a.Path)
		}
		space := "module"
		if strings.HasSuffix(name, ".css") && a.Kind == api.ResolveJSImportStatement {
			space = "text"
		}
		return api.OnResolveResult{Path: name, Namespace: space}, nil
	})
	b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: "module"}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		body, err := fs.ReadFile(files, a.Path)
		text, loader := string(body), api.LoaderJS
		if path.Ext(a.Path) == ".css" {
			loader = api.LoaderCSS
		}
		return api.OnLoadResult{Contents: &text, Loader: loader}, err
	})
	b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: "text"}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		css, err := Bundle(files, a.Path, true)
		text := strings.TrimSpace(string(css))
		return api.OnLoadResult{Contents: &text, Loader: api.LoaderText}, err
	})
}

// joinMessages returns one error for esbuild's messages; nil for none.
func joinMessages(messages []api.Message) error {
	var all []error
	for _, m := range messages {
		text := m.Text
		if m.Location != nil {
			text = fmt.Sprintf("%s:%d: %s", m.Location.File, m.Location.Line, text)
		}
		all = append(all, errors.New(text))
	}
	return errors.Join(all...)
}

package message

import (
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	texttemplate "text/template"

	"sendcode/internal/base/texts"
)

// template is the common interface of text/template and html/template.
type template interface {
	Name() string
	Execute(io.Writer, any) error
}

// templateSet has the templates of all parts for one purpose and locale. A part is nil if it did
// not compile. A part is also nil if messages of this kind do not have it, as text messages have no
// HTML.
type templateSet [partCount]template

// catalog has the checked templates of mails or of text messages, by purpose and locale.
type catalog struct {
	locales texts.Catalogue[string]
	sets    map[templateSetKey]templateSet
	chosen  cache[string, string] // results of matchLocale
}

// newCatalog reads and parses all templates of a kind, and renders samples with the templates. The
// files come from the tree builtin and then from the trees in overrides. If several trees have a
// file with the same path, the file of the last tree is used. The error lists the faults of all
// files, with line numbers if they are known.
func newCatalog(k messageKind, builtin fs.FS, overrides []fs.FS) (*catalog, error) {
	files, errs := k.loadSources(builtin, overrides)
	c, locales := &catalog{sets: map[templateSetKey]templateSet{}}, map[string]string{}
	for _, key := range files.templateSetKeys() {
		s, faults := k.compile(files, key)
		errs = slices.Concat(errs, faults, k.trySamples(s, key.locale))
		c.sets[key] = s
		if key.purpose == defaultPurpose {
			locales[key.locale] = key.locale
		}
	}
	if _, found := c.sets[templateSetKey{defaultPurpose, fallbackLocale}]; !found {
		errs = append(errs, fmt.Errorf("%s/%s/%s: is missing, and every other language falls back to it", k.root,
			defaultPurpose, fallbackLocale))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("message templates:\n%w", errors.Join(dropRepeatedErrors(errs)...))
	}
	c.locales = texts.NewCatalogue(locales)
	return c, nil
}

// dropRepeatedErrors drops errors with equal messages. Such errors occur because a shared file is
// compiled again for each purpose.
func dropRepeatedErrors(errs []error) []error {
	seen := map[string]bool{}
	return slices.DeleteFunc(errs, func(err error) bool {
		repeated := seen[err.Error()]
		seen[err.Error()] = true
		return repeated
	})
}

func (k messageKind) compile(files templateFiles, key templateSetKey) (s templateSet, errs []error) {
	for part, file := range k.files {
		if file == "" {
			continue
		}
		name, content, err := files.findOrDefaultPurpose(k.root, key, file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t, faults := compilePart(part, name, content, files[k.shared])
		if faults == nil {
			s[part] = t
		}
		errs = append(errs, faults...)
	}
	return s, errs
}

// compilePart parses the template of a part. layout has the templates that an HTML part may use.
func compilePart(part int, name, content, layout string) (template, []error) {
	t := texttemplate.New(name)
	if part == htmlPart {
		if _, err := t.New(layoutFile).Parse(layout); err != nil {
			return nil, []error{err}
		}
	}
	if _, err := t.Parse(content); err != nil {
		return nil, []error{err}
	}
	var faults []error
	html := htmltemplate.New(name)
	for _, sub := range t.Templates() {
		faults = append(faults, unknownFields(sub.Tree)...)
		if part == htmlPart {
			_, _ = html.AddParseTree(sub.Name(), sub.Tree) // fails only if the template has run before
		}
	}
	if part == htmlPart {
		return html.Lookup(name), faults
	}
	return t, faults
}

// find returns the templates for a purpose and locale, and the key of these templates. If the
// purpose has no templates, find returns the templates of the purpose "default".
func (c *catalog) find(purpose, locale string) (templateSetKey, templateSet) {
	key := templateSetKey{purpose, c.matchLocale(locale)}
	if _, found := c.sets[key]; !found {
		key.purpose = defaultPurpose
	}
	return key, c.sets[key]
}

// appRenderers has a renderer for each app with its own templates. The key of the map is the app's
// name. R is the type of renderer that embeds appRenderers.
type appRenderers[R any] struct {
	apps atomic.Pointer[map[string]*R]
}

// SetApps replaces the renderers of those apps that have their own templates. It does not affect
// messages that are being rendered.
func (a *appRenderers[R]) SetApps(apps map[string]*R) { a.apps.Store(&apps) }

// forApp returns the app's own renderer, or the shared renderer if the app has no templates of its
// own.
func (a *appRenderers[R]) forApp(app string, shared *R) *R {
	if apps := a.apps.Load(); apps != nil && (*apps)[app] != nil {
		return (*apps)[app]
	}
	return shared
}

// cache keeps values that are costly to make. When it is full, it is emptied.
type cache[K comparable, V any] struct {
	mu      sync.RWMutex
	entries map[K]V
}

func (c *cache[K, V]) getCached(k K) (V, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.entries[k]
	return v, ok
}

func (c *cache[K, V]) putCached(k K, v V, maxEntries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil || len(c.entries) >= maxEntries {
		c.entries = map[K]V{}
	}
	c.entries[k] = v
}

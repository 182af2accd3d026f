package config

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"

	"sendcode/internal/config/document"
)

// newPurpose returns a purpose with this name and the default settings.
func newPurpose(name string) Purpose {
	p := document.Defaults[Purpose]()
	p.Name = name
	return p
}

// Check implements document.Checker.
func (p *Purpose) Check(at *document.Place) { refer(at, "policy", "policy", p.Policy) }

// Check implements document.Checker.
func (k *Key) Check(p *document.Place) {
	if k.ID == apiKeyID {
		p.Complain("id", "is the id of SENDCODE_API_KEY; choose another")
	}
	if n := p.Given["scopes"]; n != nil && len(n.Content) == 0 { // it would read as nothing, and mean everything
		p.Complain("scopes", "names no scope; leave it out for all of them")
	}
	if k.Kind == PublicKey && len(k.Scopes) > 0 {
		p.Complain("", "scopes are for secret keys; a public key may do what browsers may")
	}
}

// Check implements document.Checker.
func (b *Page) Check(p *document.Place) {
	if b.App != "" {
		refer(p, "app", "app", b.App)
	}
}

// complete adds the default policy, purpose and app, and then runs the checks that concern several settings.
func (d *reader) complete(root *document.Place) {
	c := d.config
	d.completePolicies()
	d.completeLimits(root)
	d.completePurposes()
	d.checkApps(root)
	d.completeApps()
	d.checkRecipients(root)
	d.readDisposable(root)
	served := c.SMS.Countries
	if page := root.Items["page"]; c.Page.Country != "" && len(served) > 0 && !slices.Contains(served, c.Page.Country) {
		page[0].Complain("country", "%s is not among the countries of sms", document.Plain(c.Page.Country))
	}
	declared := map[string][]string{
		"policy":  append(slices.Sorted(maps.Keys(c.Policies)), d.badPolicies...),
		"purpose": slices.Sorted(maps.Keys(c.Purposes)),
	}
	for _, a := range c.Apps {
		declared["app"] = append(declared["app"], a.Name)
	}
	for _, r := range d.references {
		if names := declared[r.kind]; !slices.Contains(names, r.name) {
			d.Errs.Add(r.where, "there is no %s %s%s", r.kind, document.Plain(r.name), document.DidYouMean(r.name, names))
		}
	}
}

// completePurposes adds the default purpose, and records a mistake for each purpose whose policy does not limit recipients.
func (d *reader) completePurposes() {
	c := d.config
	if c.Purposes == nil {
		c.Purposes = map[string]Purpose{}
	}
	if _, given := c.Purposes[defaultName]; !given {
		c.Purposes[defaultName] = newPurpose(defaultName)
		d.references = append(d.references, reference{"policy", defaultName, "purposes.default"})
	}
	var unlimited []string
	for _, r := range d.references {
		policy, found := c.Policies[r.name]
		if r.kind == "policy" && found && !limitsRecipients(policy) && !slices.Contains(unlimited, r.name) {
			unlimited = append(unlimited, r.name)
			d.Errs.Add(r.where, "the policy %s has no rule with scope recipient that is enforced; every purpose needs one", r.name)
		}
	}
}

// checkApps records a mistake for each key that two apps have.
func (d *reader) checkApps(root *document.Place) {
	hashes := map[[sha256.Size]byte]bool{}
	for i, a := range d.config.Apps {
		at := root.Items["apps"][i]
		if hooks := at.Items["webhook"]; hooks != nil {
			d.hooks[a.Name] = hooks[0]
		}
		for j, k := range a.Keys {
			if hashes[k.SHA256] && k.SHA256 != [sha256.Size]byte{} {
				at.Items["keys"][j].Complain("sha256", "another key has the same hash")
			}
			hashes[k.SHA256] = true
		}
	}
}

// completeApps puts DefaultApp first, and adds it if the file does not name it.
func (d *reader) completeApps() {
	c := d.config
	i := slices.IndexFunc(c.Apps, func(a App) bool { return a.Name == DefaultApp })
	app := App{Name: DefaultApp}
	if i >= 0 {
		app = c.Apps[i]
		c.Apps = slices.Delete(c.Apps, i, i+1)
	}
	c.Apps = slices.Insert(c.Apps, 0, app)
}

// checkRecipients records a mistake for a test recipient that is listed twice, or that is hashed like another address: its code
// must be known for exactly one address.
func (d *reader) checkRecipients(root *document.Place) {
	c, key := d.config, []byte("any key, to compare with only") // hashes are how folding shows
	for i, t := range c.TestRecipients {
		at := root.Items["test_recipients"][i]
		switch {
		case t.To.IsZero():
		case slices.ContainsFunc(c.TestRecipients[:i], func(other TestRecipient) bool { return other.To.Equal(t.To) }):
			at.Complain("", "is there twice")
		case c.Folding().Hash(t.To, key) != t.To.Hash(key):
			at.Complain("", "to is folded into another address by folding; give the one without tag or dots")
		}
	}
	slices.SortFunc(c.Folds, func(a, b Fold) int { return strings.Compare(a.Domain, b.Domain) })
}

// readDisposable reads the file of domains with disposable addresses. None is built in, since such a list ages quickly.
func (d *reader) readDisposable(root *document.Place) {
	c := d.config
	if c.DisposableFile == "" {
		return
	}
	complain := func(format string, args ...any) {
		root.Complain("disposable_domains", "%s"+format, append([]any{document.Plain(c.DisposableFile)}, args...)...)
	}
	content, err := d.readFile(c.DisposableFile)
	if err != nil {
		complain(" cannot be read: %s", reasonWithoutPath(err))
		return
	}
	c.Disposable = map[string]bool{}
	for i, line := range strings.Split(string(content), "\n") {
		text, _, _ := strings.Cut(line, "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		domain := mailDomain(text)
		if domain == "" {
			complain(":%d: %s is not a domain", i+1, document.Plain(text))
			return
		}
		c.Disposable[domain] = true
	}
}

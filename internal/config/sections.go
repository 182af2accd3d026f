package config

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"reflect"
	"slices"
	"strings"

	"sendcode/internal/recipient"
)

func newPurpose(name string) Purpose {
	p := withDefaults[Purpose]()
	p.Name = name
	return p
}

func (p *Purpose) check(at *place) { at.refer("policy", "policy", p.Policy) }

func (k *Key) check(p *place) {
	if k.ID == apiKeyID {
		p.complain("id", "is the id of SENDCODE_API_KEY; choose another")
	}
	if n := p.given["scopes"]; n != nil && len(n.Content) == 0 { // it would read as nothing, and mean everything
		p.complain("scopes", "names no scope; leave it out for all of them")
	}
	if k.Kind == PublicKey && len(k.Scopes) > 0 {
		p.complain("", "scopes are for secret keys; a public key may do what browsers may")
	}
}

func (b *Page) check(p *place) {
	if b.App != "" {
		p.refer("app", "app", b.App)
	}
}

// complete adds what always exists and then looks at what has to fit together.
func (d *decoder) complete(root *place) {
	c := d.config
	d.completePolicies()
	d.completeLimits(root)
	d.completePurposes()
	d.checkApps(root)
	d.completeApps()
	d.checkRecipients(root)
	d.readDisposable(root)
	served := c.SMS.Countries
	if page := root.items["page"]; c.Page.Country != "" && len(served) > 0 && !slices.Contains(served, c.Page.Country) {
		page[0].complain("country", "%s is not among the countries of sms", plain(c.Page.Country))
	}
	declared := map[string][]string{"policy": append(sortedKeys(c.Policies), d.badPolicies...), "purpose": sortedKeys(c.Purposes)}
	for _, a := range c.Apps {
		declared["app"] = append(declared["app"], a.Name)
	}
	for _, r := range d.references {
		if names := declared[r.kind]; !slices.Contains(names, r.name) {
			d.errs.add(r.where, "there is no %s %s%s", r.kind, plain(r.name), didYouMean(r.name, names))
		}
	}
}

// completePurposes adds the default, and refuses purposes whose policy leaves recipients without a limit.
func (d *decoder) completePurposes() {
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
			d.errs.add(r.where, "the policy %s has no rule with scope recipient that is enforced; every purpose needs one", r.name)
		}
	}
}

// checkApps wants every key once.
func (d *decoder) checkApps(root *place) {
	hashes := map[[sha256.Size]byte]bool{}
	for i, a := range d.config.Apps {
		at := root.items["apps"][i]
		if hooks := at.items["webhook"]; hooks != nil {
			d.hooks[a.Name] = hooks[0]
		}
		for j, k := range a.Keys {
			if hashes[k.SHA256] && k.SHA256 != [sha256.Size]byte{} {
				at.items["keys"][j].complain("sha256", "another key has the same hash")
			}
			hashes[k.SHA256] = true
		}
	}
}

// completeApps puts DefaultApp first, and adds it where the file does not name it.
func (d *decoder) completeApps() {
	c := d.config
	i := slices.IndexFunc(c.Apps, func(a App) bool { return a.Name == DefaultApp })
	if i < 0 {
		c.Apps = append([]App{{Name: DefaultApp}}, c.Apps...)
		return
	}
	app := c.Apps[i]
	c.Apps = append([]App{app}, slices.Delete(c.Apps, i, i+1)...)
}

// checkRecipients refuses test recipients that are there twice, or would be counted as another address: their code is known for
// exactly one.
func (d *decoder) checkRecipients(root *place) {
	c, key := d.config, []byte("any key, to compare with only") // hashes are how folding shows
	for i, t := range c.TestRecipients {
		at := root.items["test_recipients"][i]
		switch {
		case t.To == recipient.Recipient{}:
		case slices.ContainsFunc(c.TestRecipients[:i], func(other TestRecipient) bool { return other.To == t.To }):
			at.complain("", "is there twice")
		case c.Folding().Hash(t.To, key) != t.To.Hash(key):
			at.complain("", "to is folded into another address by folding; give the one without tag or dots")
		}
	}
	slices.SortFunc(c.Folds, func(a, b Fold) int { return strings.Compare(a.Domain, b.Domain) })
}

// readDisposable reads the file of domains at which anybody gets an address for a while. We bring none: such a list is old on the
// day that it is shipped.
func (d *decoder) readDisposable(root *place) {
	c := d.config
	if c.DisposableFile == "" {
		return
	}
	complain := func(format string, args ...any) {
		root.complain("disposable_domains", "%s"+format, append([]any{plain(c.DisposableFile)}, args...)...)
	}
	content, err := d.readFile(c.DisposableFile)
	if err != nil {
		complain(" cannot be read: %s", cause(err))
		return
	}
	c.Disposable = map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for line := 1; lines.Scan(); line++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		domain := mailDomain(text)
		if domain == "" {
			complain(":%d: %s is not a domain", line, plain(text))
			return
		}
		c.Disposable[domain] = true
	}
	if err := lines.Err(); err != nil {
		complain(" cannot be read: %s", cause(err))
	}
}

// withDefaults is a value of a type with what its tags say.
func withDefaults[T any]() (v T) {
	setDefaults(reflect.ValueOf(&v).Elem())
	return v
}

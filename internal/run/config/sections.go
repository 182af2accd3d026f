package config

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/document"
	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/deliver/sms"
	"sendcode/quota"
)

// purposeKindConfirm is the kind of a purpose whose codes confirm an address, and are not for
// signing in.
const purposeKindConfirm = "confirm"

// Check implements document.checker: the policy must exist, a code for signing in must not live
// long, and a code that confirms an address must have enough characters. By default, a code that
// confirms an address is kept out of previews, because it lives long and nobody waits for it.
func (p *purpose) Check(at *document.Mapping) {
	addReference(at, "policy", "policy", p.PolicyName)
	if p.Kind == purposeKindConfirm && at.Given["notify"] == nil {
		p.Notify = message.NotifyPrivate
	}
	switch confirms := p.Kind == purposeKindConfirm; {
	case !confirms && p.TTL > 10*time.Minute:
		at.AddMistake("ttl", "may be longer than 10m only with kind: confirm, for a purpose that does not sign people in")
	case confirms && p.Code.Length < 8:
		at.AddMistake("kind", "confirm needs codes of at least 8 characters: add code: {length: 8}")
	}
}

// Check implements document.checker: the purposes of the app's page must exist.
func (a *App) Check(p *document.Mapping) {
	for _, name := range a.PagePurposes {
		addReference(p, "purpose", "page_purposes", name)
	}
}

// Check implements document.checker. The ID must not be reserved for the service, and only secret
// keys may have scopes or a trust.
func (k *appKey) Check(p *document.Mapping) {
	switch k.ID {
	case apiKeyID, publicKeyID:
		p.AddMistake("id", "is reserved for %s; choose another", envName(k.ID))
	case pageKeyID:
		p.AddMistake("id", "is reserved for the key of the service's own page; choose another")
	}
	if n := p.Given["scopes"]; n != nil && len(n.Content) == 0 { // an empty list looks as if it allowed nothing, but would allow everything
		p.AddMistake("scopes", "is an empty list; leave it out to allow all scopes")
	}
	if k.Kind == publicKeyKind && len(k.Scopes) > 0 {
		p.AddMistake("", "scopes are for secret keys; a public key may do what browsers may")
	}
	if k.Kind == publicKeyKind && k.Trust != "" {
		p.AddMistake("trust", "is for secret keys; everybody who opens the page has its public key")
	}
}

// Check implements document.checker. It adds a reference to the app. If no such app is declared,
// loader.complete reports a mistake later.
func (ps *pageSettings) Check(p *document.Mapping) {
	if ps.App != "" {
		addReference(p, "app", "app", ps.App)
	}
}

// complete adds the default policy, purpose, app and page, and reads the file of disposable
// domains. It reports the problems of policies, purposes, apps and recipients. It also reports each
// name that is used but not declared.
func (l *loader) complete() {
	c := l.config
	if c.DatabaseURL == "" && l.root.Given["drain"] == nil {
		c.Drain = 0
	}
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	c.SMS.Watch = c.SMS.Watch.withDefaultsFrom(defaultWatch)
	l.completeApps()
	if page := l.root.Children["page"]; c.Loopback() && (page == nil || page[0].Given["app"] == nil) {
		c.Page.App = defaultApp
	}
	l.completePolicies()
	l.completeAndCheckPurposes()
	l.normalizeFolding()
	l.checkTestRecipients()
	l.readDisposableDomains()
	declared := map[string][]string{
		"policy": slices.Sorted(maps.Keys(c.Policies)), "purpose": slices.Sorted(maps.Keys(c.Purposes)),
	}
	if policies := l.root.Given["policies"]; policies != nil { // a reference to an invalid policy is not reported again
		for name := range slices.Chunk(policies.Content, 2) {
			declared["policy"] = append(declared["policy"], name[0].Value)
		}
	}
	for _, a := range c.Apps {
		declared["app"] = append(declared["app"], a.Name)
	}
	declared["oauth client"] = slices.Sorted(maps.Keys(c.OAuth))
	servers, _ := mailserver.ParseURLs(c.SMTPURL, nil) // a mistake in it is reported already
	for _, s := range servers {
		if s.OAuth != "" && len(l.Errs.Mistakes) == 0 {
			l.references = append(l.references, nameReference{"oauth client", s.OAuth, l.locationOf("smtp_url")})
		}
	}
	for _, r := range l.references {
		if names := declared[r.kind]; !slices.Contains(names, r.name) {
			l.Errs.Add(r.where, "there is no %s %s%s", r.kind, document.Printable(r.name),
				document.DidYouMean(r.name, names))
		}
	}
}

// completeAndCheckPurposes adds the default purpose, and records a mistake for each policy that
// a purpose names and that does not limit recipients.
func (l *loader) completeAndCheckPurposes() {
	c := l.config
	if c.Purposes == nil {
		c.Purposes = map[string]purpose{}
	}
	if _, given := c.Purposes[defaultName]; !given {
		c.Purposes[defaultName] = document.Defaults[purpose]()
		l.references = append(l.references, nameReference{"policy", defaultName, "purposes.default"})
	}
	var unlimited []string
	for _, r := range l.references {
		rules, found := c.Policies[r.name]
		if r.kind == "policy" && found && !limitsRecipients(rules) && !slices.Contains(unlimited, r.name) {
			unlimited = append(unlimited, r.name)
			l.Errs.Add(r.where,
				"the policy %s has no rule with scope recipient that is enforced; every purpose needs one", r.name)
		}
	}
}

// completeApps adds defaultApp if the file lacks it, checks the keys and webhooks of all apps, and
// moves defaultApp to the front.
func (l *loader) completeApps() {
	c := l.config
	isDefault := func(a App) bool { return a.Name == defaultApp }
	if !slices.ContainsFunc(c.Apps, isDefault) {
		c.Apps = append(c.Apps, App{Name: defaultApp})
	}
	hashes := map[[sha256.Size]byte]bool{}
	for i, a := range c.Apps {
		for j, k := range a.Keys {
			if hashes[k.SHA256] {
				l.root.Children["apps"][i].Children["keys"][j].AddMistake("sha256", "another key has the same hash")
			}
			hashes[k.SHA256] = k.SHA256 != [sha256.Size]byte{}
		}
	}
	l.completeWebhooks()
	i := slices.IndexFunc(c.Apps, isDefault)
	first := c.Apps[i]
	c.Apps = slices.Insert(slices.Delete(c.Apps, i, i+1), 0, first)
}

// maxTestRecipients is how many test recipients there may be. The bound is low, since their codes
// can be read in the settings.
const maxTestRecipients = 20

// checkTestRecipients records a mistake if there are too many test recipients, and for each one
// that is listed twice, or whose address the setting folding would change. Folding gives several
// spellings of an address, for example with and without dots, the same hash. But the code of a test
// recipient must be valid for exactly one address.
func (l *loader) checkTestRecipients() {
	c := l.config
	if len(c.TestRecipients) > maxTestRecipients {
		l.root.AddMistake("test_recipients", "must have at most %d entries", maxTestRecipients)
	}
	for i, t := range c.TestRecipients {
		at := l.root.Children["test_recipients"][i]
		switch {
		case t.To.IsZero():
		case slices.ContainsFunc(c.TestRecipients[:i], func(other testRecipient) bool { return other.To.Equal(t.To) }):
			at.AddMistake("", "is given twice")
		case c.foldingChanges(t.To):
			at.AddMistake("", "the setting folding changes this address; give it without its tag and dots, or make its domain exact")
		}
	}
}

// foldingChanges reports whether folding merges the address with others.
func (c Config) foldingChanges(to recipient.Recipient) bool {
	key := []byte("any key, to compare with only") // merged addresses have equal hashes
	return c.Folding().Hashes(to, key).Counted != to.Hash(key)
}

// otherDomains stands in the setting folding for all domains that are not listed.
const otherDomains = "*"

// normalizeFolding converts the domains of the setting folding to the form that domains have in
// addresses. It records a mistake for a domain that is listed in two spellings, or that is exact
// and has rules.
func (l *loader) normalizeFolding() {
	all := map[string][]string{}
	for _, text := range slices.Sorted(maps.Keys(l.config.Folds)) {
		domain, what := cmp.Or(normalizeMailDomain(text), text), l.config.Folds[text]
		if all[domain] != nil {
			l.root.AddMistake("folding", "%s is given twice", domain)
		}
		if len(what) > 1 && slices.Contains(what, "exact") {
			l.root.AddMistake("folding", "%s must have plus_tags, dots or both, or else exact alone", domain)
		}
		all[domain] = slices.Sorted(slices.Values(l.config.Folds[text]))
	}
	l.config.Folds = all
}

// readDisposableDomains reads the file of domains with disposable addresses. The program has no
// list of its own, since such a list ages quickly. A line that cannot be a domain would match no
// address, so it is skipped, and a warning mentions it. If no line can be a domain, the file is not
// a list, and that is a mistake.
func (l *loader) readDisposableDomains() {
	c := l.config
	if c.DisposableFile == "" {
		return
	}
	path := document.PrintablePath(c.DisposableFile)
	content, err := l.readFile(c.DisposableFile)
	if err != nil {
		l.root.AddMistake("disposable_domains", "%s cannot be read: %s", path, reasonWithoutPath(err))
		return
	}
	c.Disposable = map[string]bool{}
	listed, skipped, first := 0, 0, ""
	text := strings.TrimPrefix(string(content), byteOrderMark)
	for i, line := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		entry, ok := listedDomain(line)
		switch {
		case !ok && skipped == 0:
			skipped, first = 1, fmt.Sprintf("%s:%d: %s is not a domain", path, i+1, document.Printable(entry))
		case !ok:
			skipped++
		case entry != "":
			listed++
			c.Disposable[entry] = true
		}
	}
	switch {
	case skipped > 0 && listed == 0:
		l.root.AddMistake("disposable_domains", "%s", first+", and neither is any other line")
	case skipped > 0:
		c.disposableSkipped = fmt.Sprintf("disposable_domains: %d of %d lines are skipped; the first is %s.",
			skipped, skipped+listed, first)
	}
}

// listedDomain returns the domain in a line of a list; "" for a blank line or a comment. Lists
// write domains also as patterns (*.example, .example, @example), with the root's dot, or as
// elements of JSON. If the line is something else, ok is false and listedDomain returns the line.
func listedDomain(line string) (domain string, ok bool) {
	text, _, _ := strings.Cut(line, "#")
	text = strings.TrimSpace(text)
	name := strings.Trim(text, "\"',[] \t")
	name = strings.TrimSuffix(strings.TrimLeft(name, "@*."), ".")
	if text == "" || strings.Trim(text, "[]") == "" {
		return "", true
	}
	if domain = normalizeMailDomain(name); domain == "" {
		return text, false
	}
	return domain, true
}

// checkCombinations reports settings that are valid alone but wrong together.
func (l *loader) checkCombinations() {
	c, errs, page := l.config, l.Errs, &document.Mapping{}
	if at := l.root.Children["page"]; at != nil {
		page = at[0]
	}
	if c.AdminPassword.IsSet() && c.AdminPasswordHash.IsSet() {
		errs.Add(l.locationOf("admin_password_hash"), "is given together with the password; keep one")
	}
	for i, carrier := range c.SMS.Carriers {
		if s, ok := carrier.Settings.(sms.SettingsWithCallback); ok && c.PublicURL == "" && s.NeedsCallback() {
			errs.Add(l.locationOf("public_url"), "must be given: sms.carriers[%d] needs it for {callback}", i)
		}
	}
	if _, port, _ := net.SplitHostPort(c.Addr); c.Addr == c.AdminAddr && port != "0" {
		errs.Add(l.locationOf("admin_addr"), "is the same as %s; leave it out to have both there", l.locationOf("addr"))
	}
	if c.indexKeyOnRing() {
		errs.Add(l.locationOf("index_key"), "is one of the keys of %s; it needs a key of its own",
			l.locationOf("secret_keys"))
	}
	inFile := func(key Secret) bool {
		sum := sha256.Sum256([]byte(key.Reveal()))
		same := func(k appKey) bool { return k.SHA256 == sum }
		return key.IsSet() && slices.ContainsFunc(c.Apps, func(a App) bool { return slices.ContainsFunc(a.Keys, same) })
	}
	if inFile(c.APIKey) {
		errs.Add(l.locationOf("api_key"), "is also among the keys of the file")
	}
	if inFile(c.PublicKey) {
		errs.Add(l.locationOf("public_key"), "is also among the keys of the file")
	}
	if given := l.root.Given; given["public_key"] == nil && given["origins"] != nil {
		errs.Add(l.locationOf("origins"), "needs %s, which browsers at these origins use: make one with `sendcode key --kind public`",
			envName("public_key"))
	}
	if checkAddr(c.Addr) != "" || c.AdminAddr != "" && checkAddr(c.AdminAddr) != "" {
		return // an invalid address does not show which machines can reach it
	}
	if i := slices.Index(c.Page.Channels, recipient.SMS); i >= 0 && !c.SMSEnabled() {
		at, path := page.Given["channels"].Content[i], fmt.Sprintf("page.channels[%d]", i)
		l.AddMistakeAt(at, path,
			"sms needs a carrier, or the dev mailbox; otherwise no text message can be sent")
	}
	l.checkHumanChecks()
	if !c.Loopback() {
		l.checkRequiredIfReachable()
	}
}

// checkHumanChecks adds a mistake for each app that has a human check but cannot use one. An app
// with a hook cannot use one, since sends through a hook come without a browser. It also adds a
// mistake for a check whose vendor needs hosts and has none. The default hosts are those of the
// origins, so checkHumanChecks must run when all origins are known.
func (l *loader) checkHumanChecks() {
	c := l.config
	for i, app := range l.root.Children["apps"] {
		at := app.Children["human_check"]
		if len(at) == 0 || i >= len(c.Apps) {
			continue
		}
		j := slices.IndexFunc(c.Apps, func(a App) bool { return app.Given["name"] != nil && a.Name == app.Given["name"].Value })
		if j < 0 || c.Apps[j].HumanCheck.By == "" {
			continue
		}
		a := c.Apps[j]
		if slices.ContainsFunc(c.Hooks, func(h authHook) bool { return h.App == a.Name }) {
			at[0].AddMistake("by", "does not work in an app with a hook, whose sends come without a browser; give the hook its own app")
		}
		if j == 0 && c.Origins.IsSet() { // SENDCODE_ORIGINS has the origins of the app default
			continue
		}
		if problem := a.HumanCheck.HostsProblem(a.Origins); problem != nil {
			at[0].AddMistake("", "hostnames %s", problem)
		}
	}
}

// checkRequiredIfReachable reports missing settings that are required if other machines can
// connect. In that case no keys are generated, since they would differ on the next replica. The dev
// mailbox is not allowed, since it would show codes to every visitor.
func (l *loader) checkRequiredIfReachable() {
	c, addr := l.config, l.config.Addr
	if isLoopbackAddr(addr) {
		addr = c.AdminAddr
	}
	need := func(key string, given bool, hint string) {
		name := envName(key)
		mentioned := slices.ContainsFunc(l.Errs.Mistakes, func(m document.Mistake) bool {
			return m.Where == name || m.Where == name+"_FILE"
		})
		if !given && !mentioned {
			l.Errs.Add(name, "must be given, because %s can be reached from other machines: %s", addr, hint)
		}
	}
	ownKeys := slices.ContainsFunc(c.Apps, App.hasSecretKey)
	need("secret_keys", c.SecretKeys.IsSet(), "make one with `sendcode key --kind ring`, the same for every replica")
	need("index_key", c.IndexKey.IsSet(), "make one with `sendcode key --kind index`, the same for every replica")
	need("api_key", c.APIKey.IsSet() || ownKeys, "make one with `sendcode key`, or list keys of apps in the file")
	need("smtp_url", c.SMTPURL != "", "the dev mailbox shows every code and is for loopback addresses only")
	if key := c.APIKey.Reveal(); key != "" && checkDefaultAppKey(key) == "" && len(key) < minAPIKeyLength {
		l.Errs.Add(l.locationOf("api_key"),
			"is too short for %s, which can be reached from other machines: make one with `sendcode key`", addr)
	}
}

func (c *Config) indexKeyOnRing() bool {
	index := string(c.IndexKeyBytes())
	if index == "" {
		return false
	}
	for entry := range strings.SplitSeq(c.SecretKeys.Reveal(), ",") {
		_, encoded, _ := strings.Cut(strings.TrimSpace(entry), ":")
		if key, err := keys.DecodeKey(encoded); err == nil && string(key) == index {
			return true
		}
	}
	return false
}

// completePolicies adds the default policy if the file has none. The default policy allows each
// recipient 1 send in 60 s, 5 sends in an hour and 10 sends in 24 h. If strangers' browsers can
// request sends from an app, the default policy reserves 1 of the 5 sends and 2 of the 10 sends for
// other callers. completePolicies also adds failuresRule to each policy that limits recipients and
// has no rule with the scope failures.
func (l *loader) completePolicies() {
	c := l.config
	if c.Policies == nil {
		c.Policies = map[string][]policyRule{}
	}
	if _, given := c.Policies[defaultName]; !given {
		c.Policies[defaultName] = []policyRule{
			{Name: "minute", Scope: quota.Recipient, Allowance: Allowance{Limit: 1, Window: time.Minute}},
			{Name: "hour", Scope: quota.Recipient, Allowance: Allowance{Limit: 5, Window: time.Hour}},
			{Name: "day", Scope: quota.Recipient, Allowance: Allowance{Limit: 10, Window: 24 * time.Hour}},
		}
		// reachedByStrangers does not see PublicKey, because Load adds it to the app only later
		c.builtIn = true
		if c.PublicKey.IsSet() || slices.ContainsFunc(c.Apps, c.reachedByStrangers) {
			c.Policies[defaultName][1].Reserve, c.Policies[defaultName][2].Reserve = 1, 2
		}
	}
	for name, rules := range c.Policies {
		bounded := slices.ContainsFunc(rules, func(r policyRule) bool { return r.Scope == policy.FailuresScope })
		if limitsRecipients(rules) && !bounded {
			c.Policies[name] = append(rules, failuresRule)
		}
	}
}

// completeWebhooks gives each app the secrets of its webhook. It reports secrets that belong to no
// app, webhooks without a secret, and http URLs that no setting allows. The reports never contain a
// secret.
func (l *loader) completeWebhooks() {
	c := l.config
	wrong := l.root.Given["webhook_secrets"] != nil && !c.WebhookSecrets.IsSet()
	secrets := webhookSecretsByApp(c.WebhookSecrets.Reveal())
	for i := range c.Apps {
		a := &c.Apps[i]
		for _, secret := range secrets[a.Name] {
			a.Webhook.Secrets = append(a.Webhook.Secrets, document.NewSecret(secret))
		}
		delete(secrets, a.Name)
		if a.Webhook.URL == "" {
			continue
		}
		at := l.root.Children["apps"][i].Children["webhook"][0]
		if len(a.Webhook.Secrets) == 0 && !wrong {
			at.AddMistake("url",
				"needs a secret: give SENDCODE_WEBHOOK_SECRETS=%s:$(sendcode key --kind webhook)",
				document.Printable(a.Name))
		}
		if strings.HasPrefix(a.Webhook.URL, "http://") && len(c.WebhookNetworks) == 0 {
			at.AddMistake("url", "must begin with https://; http is allowed only to networks in webhook_networks")
		}
	}
	for _, app := range slices.Sorted(maps.Keys(secrets)) {
		l.Errs.Add(l.locationOf("webhook_secrets"), "there is no app %s", document.Printable(app))
	}
}

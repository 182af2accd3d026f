package config

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// apps reads the tenants. Values of keys are never repeated: people paste the key where its hash belongs.
func (s *sections) apps(n *yaml.Node, path string) {
	s.items(n, path, func(v *yaml.Node, path string) {
		var a App
		s.fields(v, path, map[string]func(*yaml.Node, string){
			"name":    func(v *yaml.Node, path string) { s.appName(&a, v, path) },
			"title":   func(v *yaml.Node, path string) { s.title(&a, v, path) },
			"origins": func(v *yaml.Node, path string) { s.origins(&a, v, path) },
			"keys":    func(v *yaml.Node, path string) { s.keys(&a, v, path) },
			"webhook": func(v *yaml.Node, path string) { s.webhook(&a, v, path) },
		})
		if v.Kind == yaml.MappingNode && a.Name == "" {
			s.mistake(v, path, "name is missing")
		}
		s.config.Apps = append(s.config.Apps, a)
	})
}

func (s *sections) appName(a *App, n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	if !ok {
		return
	}
	a.Name = text
	if _, twice := s.config.App(text); s.checkName(n, path, text) && twice {
		s.mistake(n, path, "there is another app with this name")
	}
}

// title stands in messages, so nothing of it may look like a link (SEC-20).
func (s *sections) title(a *App, n *yaml.Node, path string) {
	const most = 64
	text, ok := s.text(n, path)
	if !ok {
		return
	}
	a.Title = text
	unfit := func(r rune) bool { return !unicode.IsPrint(r) }
	linked := func(r rune) bool { return strings.ContainsRune("/@<>:", r) }
	switch {
	case utf8.RuneCountInString(text) > most:
		s.mistake(n, path, "must be at most %d characters", most)
	case strings.ContainsFunc(text, unfit):
		s.mistake(n, path, "must be printable characters")
	case strings.ContainsFunc(text, linked) || hostLike(text):
		s.mistake(n, path, "must not look like a link or an address")
	}
}

// hostLike finds a dot between letters: mail programs turn "shop.example" into a link.
func hostLike(text string) bool {
	runes := []rune(text)
	for i := 1; i+1 < len(runes); i++ {
		if runes[i] == '.' && unicode.IsLetter(runes[i-1]) && unicode.IsLetter(runes[i+1]) {
			return true
		}
	}
	return false
}

func (s *sections) origins(a *App, n *yaml.Node, path string) {
	s.items(n, path, func(v *yaml.Node, path string) {
		text, ok := s.text(v, path)
		if !ok {
			return
		}
		switch problem := checkOrigin(text); {
		case problem != "":
			s.mistake(v, path, "%s", problem)
		case slices.Contains(a.Origins, text):
			s.mistake(v, path, "is there twice")
		default:
			a.Origins = append(a.Origins, text)
		}
	})
}

// checkOrigin wants the very bytes that a browser sends (RFC 6454 section 6.2), because they are compared as bytes.
func checkOrigin(text string) string {
	if strings.ContainsAny(text, "*?") {
		return "must be one exact origin; patterns are not allowed"
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "must be an origin such as https://shop.example"
	}
	host, port := strings.ToLower(u.Host), u.Port()
	if u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	canonical := u.Scheme + "://" + host
	switch {
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r >= utf8.RuneSelf }):
		return "must be written with the ASCII form of its domain (xn--…), as browsers send it"
	case text != canonical && u.User == nil:
		return "must be written as browsers send it: " + plain(canonical)
	case text != canonical || strings.HasSuffix(host, ":"):
		return "must be an origin such as https://shop.example"
	}
	return ""
}

func (s *sections) keys(a *App, n *yaml.Node, path string) {
	s.items(n, path, func(v *yaml.Node, path string) {
		var k Key
		given := map[string]bool{}
		s.fields(v, path, map[string]func(*yaml.Node, string){
			"id":     func(v *yaml.Node, path string) { given["id"] = true; s.keyID(a, &k, v, path) },
			"kind":   func(v *yaml.Node, path string) { given["kind"] = true; s.keyKind(&k, v, path) },
			"sha256": func(v *yaml.Node, path string) { given["sha256"] = true; s.keyHash(a, &k, v, path) },
			"expires": func(v *yaml.Node, path string) {
				if at, ok := s.instant(v, path); ok {
					k.Expires = at
				}
			},
			"scopes": func(v *yaml.Node, path string) { s.keyScopes(&k, v, path) },
		})
		if k.Kind == PublicKey && len(k.Scopes) > 0 {
			s.mistake(v, path, "scopes are for secret keys; a public key may do what browsers may")
		}
		for _, field := range []string{"id", "kind", "sha256"} {
			if v.Kind == yaml.MappingNode && !given[field] {
				s.mistake(v, path, "%s is missing", field)
			}
		}
		a.Keys = append(a.Keys, k)
	})
}

func (s *sections) keyID(a *App, k *Key, n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	if !ok || !s.checkName(n, path, text) {
		return
	}
	k.ID = text
	switch {
	case text == apiKeyID:
		s.mistake(n, path, "is the id of SENDCODE_API_KEY; choose another")
	case slices.ContainsFunc(a.Keys, func(other Key) bool { return other.ID == text }):
		s.mistake(n, path, "another key of this app has the same id")
	}
}

func (s *sections) keyKind(k *Key, n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	if k.Kind = KeyKind(text); ok && k.Kind != SecretKey && k.Kind != PublicKey {
		s.mistake(n, path, "must be secret or public")
	}
}

// keyScopes refuses an empty list: it would read as nothing, and mean everything.
func (s *sections) keyScopes(k *Key, n *yaml.Node, path string) {
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		s.mistake(n, path, "names no scope; leave it out for all of them")
	}
	s.items(n, path, func(v *yaml.Node, path string) {
		text, ok := s.text(v, path)
		switch {
		case !ok:
		case !slices.Contains(KeyScopes, text):
			s.mistake(v, path, "must be send, check, read or limit%s", didYouMean(text, KeyScopes))
		case slices.Contains(k.Scopes, text):
			s.mistake(v, path, "is there twice")
		default:
			k.Scopes = append(k.Scopes, text)
		}
	})
}

// keyHash refuses the hash of nothing, with which an empty token would be let in, and a hash that two keys share.
func (s *sections) keyHash(a *App, k *Key, n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	if !ok {
		return
	}
	sum, err := hex.DecodeString(text)
	if err != nil || len(sum) != sha256.Size {
		s.mistake(n, path, "must be the 64 hexadecimal digits that `sendcode key` prints, not the key")
		return
	}
	k.SHA256 = [sha256.Size]byte(sum)
	switch {
	case k.SHA256 == [sha256.Size]byte{} || k.SHA256 == sha256.Sum256(nil):
		s.mistake(n, path, "is not the hash of a key")
	case hasHash(append(s.config.Apps, *a), k.SHA256):
		s.mistake(n, path, "another key has the same hash")
	}
}

func hasHash(apps []App, sum [sha256.Size]byte) bool {
	return slices.ContainsFunc(apps, func(a App) bool {
		return slices.ContainsFunc(a.Keys, func(k Key) bool { return k.SHA256 == sum })
	})
}

// completeApps puts DefaultApp first, and adds it where the file does not name it.
func (s *sections) completeApps() {
	isDefault := func(a App) bool { return a.Name == DefaultApp }
	i := slices.IndexFunc(s.config.Apps, isDefault)
	if i < 0 {
		s.config.Apps = append([]App{{Name: DefaultApp}}, s.config.Apps...)
		return
	}
	d := s.config.Apps[i]
	s.config.Apps = append([]App{d}, slices.Delete(s.config.Apps, i, i+1)...)
}

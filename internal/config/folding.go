package config

import (
	"go.yaml.in/yaml/v3"

	"sendcode/internal/recipient"
)

// folding reads at which domains several spellings are one mailbox.
func (s *sections) folding(n *yaml.Node, path string) {
	s.items(n, path, func(v *yaml.Node, path string) {
		var domain string
		var fold recipient.Fold
		s.fields(v, path, map[string]func(*yaml.Node, string){
			"domain":    func(v *yaml.Node, path string) { domain, _ = s.text(v, path) },
			"plus_tags": func(v *yaml.Node, path string) { fold.PlusTags = s.boolean(v, path) },
			"dots":      func(v *yaml.Node, path string) { fold.Dots = s.boolean(v, path) },
		})
		if v.Kind != yaml.MappingNode {
			return
		}
		if domain == "" {
			s.mistake(v, path, "domain is missing")
			return
		}
		if domain = s.domainOf(v, path, domain); domain == "" {
			return
		}
		if _, twice := s.config.Folding[domain]; twice {
			s.mistake(v, path, "%s is there twice", plain(domain))
		}
		if fold == (recipient.Fold{}) {
			s.mistake(v, path, "folds nothing; set plus_tags or dots to true")
		}
		if s.config.Folding == nil {
			s.config.Folding = recipient.Folding{}
		}
		s.config.Folding[domain] = fold
	})
}

// completeFolding refuses test recipients that would be counted as another address: their code is known for exactly one.
func (s *sections) completeFolding() {
	key := []byte("any key, to compare with only") // hashes are how folding shows
	for i, t := range s.config.TestRecipients {
		if t.To != (recipient.Recipient{}) && s.config.Folding.Hash(t.To, key) != t.To.Hash(key) {
			s.errs.add(s.testAt[i], "to is folded into another address by folding; give the one without tag or dots")
		}
	}
}

func (d document) boolean(n *yaml.Node, path string) bool {
	text, ok := d.text(n, path)
	if ok && text != "true" && text != "false" {
		d.mistake(n, path, "must be true or false")
	}
	return text == "true"
}

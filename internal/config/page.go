package config

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"sendcode/internal/recipient"
)

func (s *sections) pageChannels(n *yaml.Node, path string) {
	s.items(n, path, func(v *yaml.Node, path string) {
		text, ok := s.text(v, path)
		if !ok {
			return
		}
		ch, err := recipient.ParseChannel(text)
		switch {
		case err != nil:
			s.mistake(v, path, "%s is no channel; there are email and sms", plain(text))
			return
		case slices.Contains(s.config.Page.Channels, ch):
			s.mistake(v, path, "is there twice")
			return
		case ch == recipient.SMS:
			s.pageSMSAt = s.where(v, path)
		}
		s.config.Page.Channels = append(s.config.Page.Channels, ch)
	})
}

// completePage looks at the page's country beside those that text messages may go to.
func (s *sections) completePage() {
	served := s.config.SMS.Countries
	if s.pageCountryAt != "" && len(served) > 0 && !slices.Contains(served, s.config.Page.Country) {
		s.errs.add(s.pageCountryAt, "%s is not among the countries of sms", plain(s.config.Page.Country))
	}
}

func (c Config) pageNode() *yaml.Node {
	var channels []string
	for _, ch := range c.Page.Channels {
		channels = append(channels, string(ch))
	}
	return flow(mapping("app", text(c.Page.App), "channels", flow(texts(channels)), "country", text(c.Page.Country)))
}

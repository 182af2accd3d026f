package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"sendcode/quota"
)

// SpendCap bounds what text messages may cost.
type SpendCap struct {
	Name  string
	Scope quota.Scope  // quota.Global, quota.App (each by itself) or quota.Country (each by itself)
	Per   quota.Period // quota.Day or quota.Month, in UTC
	Limit int64        // millionths of the currency
}

// micros is how many millionths a unit of the currency has.
const micros = 1_000_000

var amountPattern = regexp.MustCompile(`^([0-9]{1,9})(?:\.([0-9]{1,6}))?$`)

// amount reads "0.045" exactly: no float knows it.
func (s *sections) amount(n *yaml.Node, path string) (int64, bool) {
	text, ok := s.text(n, path)
	if !ok {
		return 0, false
	}
	parts := amountPattern.FindStringSubmatch(text)
	if parts == nil {
		s.mistake(n, path, "must be an amount such as 0.045, with at most six decimals")
		return 0, false
	}
	units, _ := strconv.ParseInt(parts[1], 10, 64)
	rest, _ := strconv.ParseInt((parts[2] + "000000")[:6], 10, 64)
	return units*micros + rest, true
}

// amountText is an amount as amount reads it.
func amountText(v int64) string {
	text := strconv.FormatInt(v/micros, 10)
	if rest := v % micros; rest > 0 {
		text += strings.TrimRight("."+strconv.FormatInt(micros+rest, 10)[1:], "0")
	}
	return text
}

func (s *sections) prices(c *SMSCarrier, n *yaml.Node, path string) {
	s.entries(n, path, func(country string, v *yaml.Node, path string) {
		price, ok := s.amount(v, path)
		switch {
		case !ok:
		case country == defaultName:
			c.DefaultPrice = &price
		case s.checkCountry(v, path, country):
			if c.Prices == nil {
				c.Prices = map[string]int64{}
			}
			c.Prices[country] = price
		}
	})
}

func (s *sections) spend(n *yaml.Node, path string) {
	s.items(n, path, func(v *yaml.Node, path string) {
		var c SpendCap
		given := map[string]bool{}
		word := func(key string, into func(string), allowed ...string) reader {
			return func(v *yaml.Node, path string) {
				given[key] = true
				text, ok := s.text(v, path)
				if ok && !slices.Contains(allowed, text) {
					s.mistake(v, path, "must be %s", strings.Join(allowed, " or "))
				}
				into(text)
			}
		}
		s.fields(v, path, map[string]func(*yaml.Node, string){
			"name": func(v *yaml.Node, path string) {
				given["name"] = true
				if text, ok := s.text(v, path); ok && s.checkName(v, path, text) {
					c.Name = text
				}
			},
			"scope": word("scope", func(t string) { c.Scope = quota.Scope(t) }, string(quota.Global), string(quota.App), string(quota.Country)),
			"per":   word("per", func(t string) { c.Per = quota.Period(t) }, string(quota.Day), string(quota.Month)),
			"limit": func(v *yaml.Node, path string) { given["limit"] = true; c.Limit, _ = s.amount(v, path) },
		})
		for _, field := range []string{"name", "scope", "per", "limit"} {
			if v.Kind == yaml.MappingNode && !given[field] {
				s.mistake(v, path, "%s is missing", field)
			}
		}
		if c.Name != "" && slices.ContainsFunc(s.config.SMS.Spend, func(o SpendCap) bool { return o.Name == c.Name }) {
			s.mistake(v, path, "there is another cap of that name")
		}
		s.config.SMS.Spend = append(s.config.SMS.Spend, c)
	})
}

// checkPrices wants a price for all that is sent, where there is a cap: what costs nothing is never stopped.
func (s *sections) checkPrices(n *yaml.Node, path string) {
	if len(s.config.SMS.Spend) == 0 {
		return
	}
	for i, c := range s.config.SMS.Carriers {
		if c.DefaultPrice != nil {
			continue
		}
		for _, country := range s.config.SMS.Countries {
			if _, ok := c.Prices[country]; !ok {
				s.mistake(n, path, "carriers[%d] has no price for %s, nor a default, which spend needs", i, country)
			}
		}
	}
}

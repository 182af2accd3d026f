package config

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"sendcode/internal/sms"
	"sendcode/internal/sms/generic"
)

// carriers reads the list; the order is that of preference.
func (s *sections) carriers(n *yaml.Node, path string) {
	s.items(n, path, func(v *yaml.Node, path string) {
		c := s.carrier(v, path)
		same := func(other SMSCarrier) bool { return c.Name != "" && other.Name == c.Name }
		if slices.ContainsFunc(s.config.SMS.Carriers, same) {
			s.mistake(v, path, "there is another carrier of that name")
		}
		if s.config.SMS.Carriers = append(s.config.SMS.Carriers, c); len(s.config.SMS.Carriers) == maxCarriers+1 {
			s.mistake(v, path, "there may be %d carriers at most", maxCarriers)
		}
	})
}

// reader puts a single value into a field.
type reader = func(*yaml.Node, string)

func (s *sections) into(field *string) reader {
	return func(v *yaml.Node, path string) { *field, _ = s.text(v, path) }
}

func (s *sections) carrier(n *yaml.Node, path string) SMSCarrier {
	c := SMSCarrier{Timeout: carrierTimeout}
	before := len(s.errs.Mistakes)
	c.Type = s.typeOf(n)
	known := map[string]reader{
		"name": func(v *yaml.Node, path string) {
			if text, ok := s.text(v, path); ok && s.checkName(v, path, text) {
				c.Name = text
			}
		},
		"type":        s.into(new(string)),
		"secret_env":  func(v *yaml.Node, path string) { s.secretEnv(c.kept(), v, path) },
		"secret_file": func(v *yaml.Node, path string) { s.secretFile(c.kept(), v, path) },
		"prices":      func(v *yaml.Node, path string) { s.prices(&c, v, path) },
		"poll":        func(v *yaml.Node, path string) { s.poll(&c, v, path) },
		"prefixes":    func(v *yaml.Node, path string) { s.prefixes(&c, v, path) },
		"timeout": func(v *yaml.Node, path string) {
			wait, ok := s.duration(v, path)
			if c.Timeout = wait; ok && (wait < minCarrierTimeout || wait > maxCarrierTimeout) {
				s.mistake(v, path, "must be from %s to %s", short(minCarrierTimeout), short(maxCarrierTimeout))
			}
		},
	}
	switch c.Type {
	case typeHTTP:
		s.httpFields(&c.HTTP, known)
	case typeTwilio:
		known["account"], known["key"] = s.into(&c.Twilio.Account), s.into(&c.Twilio.Key)
		known["service"], known["endpoint"] = s.into(&c.Twilio.Service), s.into(&c.Twilio.Endpoint)
	case typeAliyun:
		known["key_id"], known["sign"], known["endpoint"] = s.into(&c.Aliyun.KeyID), s.into(&c.Aliyun.Sign), s.into(&c.Aliyun.Endpoint)
		known["templates"], known["params"] = s.approved(&c.Aliyun.Templates), s.list(&c.Aliyun.Params)
	case typeTencent:
		known["key_id"], known["sign"], known["endpoint"] = s.into(&c.Tencent.KeyID), s.into(&c.Tencent.Sign), s.into(&c.Tencent.Endpoint)
		known["templates"], known["params"] = s.approved(&c.Tencent.Templates), s.list(&c.Tencent.Params)
		known["app"], known["region"] = s.into(&c.Tencent.App), s.into(&c.Tencent.Region)
	default:
		s.mistake(n, path, "type must be http, twilio, aliyun or tencent")
		return c
	}
	s.fields(n, path, known)
	if len(s.errs.Mistakes) > before {
		return c // what is missing may be what was wrong
	}
	if c.Name == "" {
		s.mistake(n, path, "name is missing")
	}
	wrong := c.check()
	for _, key := range sortedKeys(wrong) {
		s.mistake(n, join(path, key), "%s", wrong[key])
	}
	return c
}

// typeOf looks ahead: the other keys depend on it.
func (s *sections) typeOf(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "type" {
			return n.Content[i+1].Value
		}
	}
	return ""
}

func (s *sections) httpFields(g *generic.Config, known map[string]reader) {
	g.Method = "POST"
	known["method"], known["url"], known["user"], known["body"] = s.into(&g.Method), s.into(&g.URL), s.into(&g.User), s.into(&g.Body)
	known["format"] = func(v *yaml.Node, path string) { text, _ := s.text(v, path); g.Format = generic.Format(text) }
	known["headers"] = s.words(&g.Header)
	known["receipt"] = func(v *yaml.Node, path string) {
		s.fields(v, path, map[string]func(*yaml.Node, string){
			"status": s.into(&g.Receipt.Status), "delivered": s.list(&g.Receipt.Delivered), "undelivered": s.list(&g.Receipt.Undelivered),
		})
	}
	known["answer"] = func(v *yaml.Node, path string) {
		s.fields(v, path, map[string]func(*yaml.Node, string){
			"id": s.extract(&g.Answer.ID), "code": s.extract(&g.Answer.Code), "accepted": s.list(&g.Answer.Accepted),
			"codes": s.words(&g.Answer.Codes), "statuses": s.words(&g.Answer.Statuses),
			"match": func(v *yaml.Node, path string) {
				text, ok := s.text(v, path)
				pattern, err := regexp.Compile(text)
				if g.Answer.Match = pattern; ok && err != nil {
					s.mistake(v, path, "is no regular expression")
				}
			},
		})
	}
}

// poll is off, or, of a described carrier, how it is asked what became of a message.
func (s *sections) poll(c *SMSCarrier, n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode || c.Type != typeHTTP {
		text, ok := s.text(n, path)
		if c.PollOff = text == "off"; ok && text != "off" && (text != "on" || c.Type == typeHTTP) {
			s.mistake(n, path, "must be on or off; of a carrier of type http off, or how it is asked: {url: …, status: $.status, delivered: […]}")
		}
		return
	}
	p := &c.HTTP.Poll
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"url": s.into(&p.URL), "status": s.into(&p.Status), "delivered": s.list(&p.Delivered), "undelivered": s.list(&p.Undelivered),
	})
}

func (s *sections) extract(into *generic.Extract) reader {
	return func(v *yaml.Node, path string) {
		text, ok := s.text(v, path)
		if !ok {
			return
		}
		e, err := generic.ParseExtract(text)
		if *into = e; err != nil {
			s.mistake(v, path, "%s", err)
		}
	}
}

// words reads a mapping of single values.
func (s *sections) words(into *map[string]string) reader {
	return func(v *yaml.Node, path string) {
		*into = map[string]string{}
		s.entries(v, path, func(key string, v *yaml.Node, path string) {
			if text, ok := s.text(v, path); ok {
				(*into)[key] = text
			}
		})
	}
}

// list reads a list of single values.
func (s *sections) list(into *[]string) reader {
	return func(v *yaml.Node, path string) {
		*into = nil
		s.items(v, path, func(v *yaml.Node, path string) {
			if text, ok := s.text(v, path); ok {
				*into = append(*into, text)
			}
		})
	}
}

// approved reads template IDs by purpose and language. Purposes are not looked up: a template may wait for its purpose.
func (s *sections) approved(into *sms.Approved) reader {
	return func(v *yaml.Node, path string) {
		*into = sms.Approved{}
		s.entries(v, path, func(purpose string, v *yaml.Node, path string) {
			var ids map[string]string
			s.words(&ids)(v, path)
			(*into)[purpose] = ids
		})
	}
}

var envPattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

// secretPlace is where a secret is kept that the file names, and what names it.
type secretPlace struct {
	secret    *Secret
	env, file *string
}

func (c *SMSCarrier) kept() secretPlace { return secretPlace{&c.Secret, &c.SecretEnv, &c.SecretFile} }

func (s *sections) secretEnv(c secretPlace, n *yaml.Node, path string) {
	name, ok := s.text(n, path)
	switch {
	case !ok:
	case *c.file != "":
		s.mistake(n, path, "stands beside secret_file; keep one")
	case !envPattern.MatchString(name):
		s.mistake(n, path, "must be the name of a variable, such as TWILIO_TOKEN, and not the secret itself")
	case strings.HasPrefix(name, prefix):
		s.mistake(n, path, "variables that begin with %s have a meaning of their own; take another name", prefix)
	default:
		*c.env = name
		s.keepSecret(c, n, path, s.getenv(name), "the variable "+name)
	}
}

func (s *sections) secretFile(c secretPlace, n *yaml.Node, path string) {
	name, ok := s.text(n, path)
	switch {
	case !ok:
	case *c.env != "":
		s.mistake(n, path, "stands beside secret_env; keep one")
	default:
		content, err := s.readFile(name)
		if err != nil {
			s.mistake(n, path, "%s cannot be read: %s", plain(name), cause(err))
			return
		}
		*c.file = name
		s.keepSecret(c, n, path, strings.TrimRight(string(content), "\r\n"), "the file "+plain(name))
	}
}

func (s *sections) keepSecret(c secretPlace, n *yaml.Node, path, value, from string) {
	switch {
	case strings.TrimSpace(value) == "":
		s.mistake(n, path, "%s is empty", from)
	case len(value) > maxValue || !utf8.ValidString(value) || strings.ContainsFunc(value, isControl):
		s.mistake(n, path, "%s holds no secret: it is too long, or has control characters", from)
	default:
		*c.secret = NewSecret(value)
	}
}

func (s *sections) prefixes(c *SMSCarrier, n *yaml.Node, path string) {
	s.items(n, path, func(v *yaml.Node, path string) {
		text, ok := s.text(v, path)
		if ok && (len(text) < 2 || text[0] != '+' || strings.Trim(text[1:], "0123456789") != "") {
			s.mistake(v, path, "must be + and digits, as phone numbers begin")
		}
		c.Prefixes = append(c.Prefixes, text)
	})
}

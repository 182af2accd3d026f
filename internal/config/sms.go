package config

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"sendcode/internal/recipient"
	"sendcode/internal/sms"
	"sendcode/internal/sms/aliyun"
	"sendcode/internal/sms/generic"
	"sendcode/internal/sms/tencent"
	"sendcode/internal/sms/twilio"
)

// SMS is how text messages are sent. Without carriers the channel is off, or ends at the dev mailbox.
type SMS struct {
	// Countries are those that numbers may belong to, as ISO 3166-1 alpha-2, sorted; all others are refused (SMS-2).
	Countries  []string
	RefuseVoIP bool              // numbers of internet telephony are refused as well (SMS-1)
	Segments   int               // that one text may take, 1 to 4
	Origin     string            // host of the page that codes are entered on (SMS-4); empty: texts have no such line
	PublicURL  string            // where carriers reach this service with receipts; empty: they send none
	Sender     string            // what messages come from; empty: the carrier's choice
	Senders    map[string]string // the same by country
	Carriers   []SMSCarrier      // in order of preference
	Spend      []SpendCap
	Watch      SMSWatch
}

// SMSCarrier is one carrier; of the last four fields the one that Type names is meant, without secret and timeout.
type SMSCarrier struct {
	Name       string
	Type       string // http, twilio, aliyun or tencent
	Secret     Secret
	SecretEnv  string // the variable that Secret came from
	SecretFile string // or the file
	// Prices are what a segment costs by country, in millionths of the currency; DefaultPrice, where given, is that of all others.
	Prices       map[string]int64
	DefaultPrice *int64
	Prefixes     []string      // of the numbers that it takes, with their "+"; none: all
	Timeout      time.Duration // of one attempt
	PollOff      bool          // it is not asked what became of messages

	HTTP    generic.Config
	Twilio  twilio.Config
	Aliyun  aliyun.Config
	Tencent tencent.Config
}

// The types of carriers.
const (
	typeHTTP    = "http"
	typeTwilio  = "twilio"
	typeAliyun  = "aliyun"
	typeTencent = "tencent"
)

const (
	maxSegments       = 4
	maxCarriers       = 20
	minCarrierTimeout = time.Second
	maxCarrierTimeout = time.Minute
	carrierTimeout    = 20 * time.Second
)

func (c SMSCarrier) settings() sms.Settings {
	c.Twilio.Poll, c.Aliyun.Poll, c.Tencent.Poll = !c.PollOff, !c.PollOff, !c.PollOff
	switch c.Type {
	case typeTwilio:
		return c.Twilio
	case typeAliyun:
		return c.Aliyun
	case typeTencent:
		return c.Tencent
	}
	return c.HTTP
}

// Open makes the carrier.
func (c SMSCarrier) Open() sms.Carrier {
	return c.settings().Open(sms.Setup{Name: c.Name, Secret: c.Secret.Reveal(), Timeout: c.Timeout})
}

// Polled says whether the carrier is asked what became of messages: where it can be, unless that is off.
func (c SMSCarrier) Polled() bool { return !c.PollOff && c.settings().Polled() }

func (c SMSCarrier) check() map[string]error {
	wrong := c.settings().Check()
	if c.settings().NeedsSecret() && !c.Secret.IsSet() {
		wrong["secret_env"] = errors.New("or secret_file is missing")
	}
	return wrong
}

// SMSOn says whether text messages go anywhere: to a carrier or, beside the dev mailbox, there.
func (c Config) SMSOn() bool { return len(c.SMS.Carriers) > 0 || c.DevPhone() }

// DevPhone says whether text messages end at the dev mailbox, as mails do.
func (c Config) DevPhone() bool { return len(c.SMS.Carriers) == 0 && c.SMTPURL == "" && c.Loopback() }

func defaultSMS() SMS { return SMS{Segments: 1, Watch: defaultWatch()} }

// sms reads everything about text messages.
func (s *sections) sms(n *yaml.Node, path string) {
	at, before := &s.config.SMS, len(s.errs.Mistakes)
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"countries": func(v *yaml.Node, path string) { s.countries(v, path) },
		"voip": func(v *yaml.Node, path string) {
			text, ok := s.text(v, path)
			if at.RefuseVoIP = text == "refuse"; ok && text != "refuse" && text != "allow" {
				s.mistake(v, path, "must be allow or refuse")
			}
		},
		"segments": func(v *yaml.Node, path string) {
			count, ok := s.integer(v, path)
			if at.Segments = count; ok && (count < 1 || count > maxSegments) {
				s.mistake(v, path, "must be from 1 to %d", maxSegments)
			}
		},
		"origin":     func(v *yaml.Node, path string) { s.smsOrigin(v, path) },
		"public_url": func(v *yaml.Node, path string) { s.publicURL(v, path) },
		"sender": func(v *yaml.Node, path string) {
			if text, ok := s.text(v, path); ok && (text == "" || s.checkSender(v, path, text)) {
				at.Sender = text
			}
		},
		"senders": func(v *yaml.Node, path string) {
			s.entries(v, path, func(country string, v *yaml.Node, path string) {
				text, ok := s.text(v, path)
				if ok && s.checkCountry(v, path, country) && s.checkSender(v, path, text) {
					if at.Senders == nil {
						at.Senders = map[string]string{}
					}
					at.Senders[country] = text
				}
			})
		},
		"carriers": func(v *yaml.Node, path string) { s.carriers(v, path) },
		"spend":    func(v *yaml.Node, path string) { s.spend(v, path) },
		"watch":    func(v *yaml.Node, path string) { s.watch(v, path) },
	})
	if n.Kind == yaml.MappingNode {
		if len(s.errs.Mistakes) == before { // or a prefix that was mistyped would be told twice
			s.checkRoutes(n, path)
		}
		s.checkPrices(n, path)
		for i, c := range at.Carriers {
			if at.PublicURL == "" && strings.Contains(c.HTTP.URL+c.HTTP.Body, "{callback}") {
				s.mistake(n, path, "public_url is missing, which carriers[%d] needs for {callback}", i)
			}
		}
	}
	if n.Kind == yaml.MappingNode && len(at.Carriers) > 0 && len(at.Countries) == 0 {
		s.mistake(n, path, "countries is missing: those that may be sent to, as in [DE, AT]; all others are refused")
	}
}

func (s *sections) countries(n *yaml.Node, path string) {
	s.items(n, path, func(v *yaml.Node, path string) {
		country, ok := s.text(v, path)
		switch {
		case !ok || !s.checkCountry(v, path, country):
		case slices.Contains(s.config.SMS.Countries, country):
			s.mistake(v, path, "is there twice")
		default:
			s.config.SMS.Countries = append(s.config.SMS.Countries, country)
		}
	})
	slices.Sort(s.config.SMS.Countries)
}

// checkRoutes wants a carrier for every country that is listed: codes to one without would wait for nothing until they have run out.
func (s *sections) checkRoutes(n *yaml.Node, path string) {
	for _, country := range s.config.SMS.Countries {
		code := recipient.DialCode(country) // none of numbers that belong to no country, which begin in many ways
		reaches := func(prefix string) bool { return strings.HasPrefix(code, prefix) || strings.HasPrefix(prefix, code) }
		takes := func(c SMSCarrier) bool { return len(c.Prefixes) == 0 || slices.ContainsFunc(c.Prefixes, reaches) }
		if code != "" && len(s.config.SMS.Carriers) > 0 && !slices.ContainsFunc(s.config.SMS.Carriers, takes) {
			s.mistake(n, path, "no carrier takes numbers of %s, which begin with %s: look at the carriers' prefixes", country, code)
		}
	}
}

// checkCountry knows what happens to Norway: NO is false in YAML 1.1, but read as it is written here.
func (s *sections) checkCountry(n *yaml.Node, path, country string) bool {
	if !recipient.KnownCountry(country) {
		s.mistake(n, path, "%s is no country such as DE (ISO 3166-1), nor \"001\" for satellite and international numbers", plain(country))
		return false
	}
	return true
}

// senderPattern: a number, a short code, or a name of 11 characters at most (3GPP TS 23.040 section 9.1.2.5).
var senderPattern = regexp.MustCompile(`^(\+?[0-9]{3,15}|[A-Za-z0-9 ._-]{0,10}[A-Za-z][A-Za-z0-9 ._-]{0,10})$`)

func (s *sections) checkSender(n *yaml.Node, path, text string) bool {
	digits := strings.Trim(text, "+0123456789") == ""
	if !senderPattern.MatchString(text) || !digits && len(text) > 11 {
		s.mistake(n, path, "is no sender: a number, a short code, or a name of at most 11 letters and digits")
		return false
	}
	return true
}

// smsOrigin takes the host of the page: the line in the text has no scheme and no port.
func (s *sections) smsOrigin(n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	if s.config.SMS.Origin = text; !ok || text == "" {
		return
	}
	if domain := mailDomain(text); domain != text || strings.ContainsAny(text, ":/") {
		s.mistake(n, path, "must be the host of the page alone, in lower case, such as shop.example")
	}
}

func (s *sections) publicURL(n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	if s.config.SMS.PublicURL = strings.TrimSuffix(text, "/"); !ok || text == "" {
		return
	}
	if problem := sms.CheckURL(text); problem != "" {
		s.mistake(n, path, "%s", problem)
	} else if strings.ContainsAny(text, "?#{}") {
		s.mistake(n, path, "must end with the host or a path")
	}
}

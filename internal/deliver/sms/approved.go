package sms

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"sendcode/internal/deliver/delivery"
)

// ApprovedTemplates are the IDs of templates that a carrier has approved, by purpose and BCP 47
// tag. The purpose "default" stands in for templates that a purpose lacks; see findTemplate.
type ApprovedTemplates map[string]map[string]string

const (
	defaultPurpose  = "default"
	defaultLanguage = "en"
)

// findTemplate looks for the language, then for English, then for any language, each time for the
// purpose and then for the default purpose. It returns "" if there is no template.
func (a ApprovedTemplates) findTemplate(purpose, language string) string {
	for _, l := range []string{language, defaultLanguage} {
		for _, p := range []string{purpose, defaultPurpose} {
			if id := a[p][l]; id != "" {
				return id
			}
		}
	}
	for _, p := range []string{purpose, defaultPurpose} {
		if all := a[p]; len(all) > 0 {
			return all[slices.Min(slices.Collect(maps.Keys(all)))]
		}
	}
	return ""
}

// Account has the settings that carriers with approved templates and signed requests have in
// common.
type Account struct {
	// The ID of the access key. Tencent Cloud calls it secret ID.
	KeyID string `yaml:"key_id,omitempty"`
	// The approved signature; mainland China needs one.
	Sign string `yaml:"sign,omitempty"`
	// Approved template IDs by purpose and language; `default` for all other purposes.
	Templates ApprovedTemplates `yaml:"templates"`
	// The parameters of the templates, in their order.
	Params []string `yaml:"params" default:"[code, minutes]"`
}

var keyIDPattern = regexp.MustCompile(`^[A-Za-z0-9]{4,128}$`)

// Template returns the approved template for a message, and the values of its parameters in order.
func (a Account) Template(m Message) (id string, values []string, fail *delivery.Error) {
	id = a.Templates.findTemplate(m.Purpose, m.Language)
	if id == "" {
		return "", nil, &delivery.Error{
			Class: delivery.Temporary, Stage: delivery.StagePrepare, About: delivery.AboutUs,
			Err: errNoTemplate,
		}
	}
	for _, name := range a.Params {
		if name == paramMinutes && m.Minutes == 0 {
			return "", nil, &delivery.Error{
				Class: delivery.Temporary, Stage: delivery.StagePrepare, About: delivery.AboutUs,
				Err: ErrNoMinutes,
			}
		}
		if name == paramMinutes {
			values = append(values, strconv.Itoa(m.Minutes))
		} else {
			values = append(values, m.Code)
		}
	}
	return id, values, nil
}

// CheckAccount returns the problems of the settings, by key.
func (a Account) CheckAccount() map[string]error {
	wrong := map[string]error{}
	if !keyIDPattern.MatchString(a.KeyID) {
		wrong["key_id"] = errors.New("is missing, or is not the ID of an access key")
	}
	if len(a.Templates[defaultPurpose]) == 0 {
		wrong["templates"] = errors.New("must have the purpose default, with a template for each language, " +
			"as in default: {zh-Hans: SMS_100000001}")
	}
	if slices.ContainsFunc(a.Params, func(p string) bool { return p != paramCode && p != paramMinutes }) {
		wrong["params"] = errors.New("must be code and minutes, in the order of the template")
	}
	if len(a.Params) > 0 && !slices.Contains(a.Params, paramCode) {
		wrong["params"] = errors.New("must have code")
	}
	return wrong
}

func (a Account) NeedsSecret() bool { return true }

func (a Account) CanBePolled() bool { return true }

func (a Account) HasAccountCallback() bool { return true }

const (
	paramCode    = "code"
	paramMinutes = "minutes"
)

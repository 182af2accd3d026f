package sms

import (
	"errors"
	"maps"
	"slices"
	"strconv"
)

// Approved are the templates that a carrier has approved, by purpose and language: template ID by BCP 47 tag. The purpose
// "default" serves every other one.
type Approved map[string]map[string]string

const (
	defaultPurpose  = "default"
	defaultLanguage = "en"
)

// Find gives the template: of the purpose in the language, of the default purpose in the language, then English, then
// whatever the default purpose has.
func (a Approved) Find(purpose, language string) string {
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

// Check wants templates of the purpose "default".
func (a Approved) Check(wrong map[string]error) {
	if len(a[defaultPurpose]) == 0 {
		wrong["templates"] = errors.New("must have the purpose default, with a template for each language, " +
			"as in default: {zh-Hans: SMS_100000001}")
	}
}

// What an approved template may take, in its order.
const (
	paramCode    = "code"
	paramMinutes = "minutes"
)

// DefaultParams are what an approved template takes unless it says otherwise.
var DefaultParams = []string{paramCode, paramMinutes}

// CheckParams wants the parameters that there are.
func CheckParams(params []string, wrong map[string]error) {
	for _, p := range params {
		if p != paramCode && p != paramMinutes {
			wrong["params"] = errors.New("are code and minutes, in the order in which the template has them")
		}
	}
	if len(params) > 0 && !slices.Contains(params, paramCode) {
		wrong["params"] = errors.New("must have code")
	}
}

// Param is the value of one of them.
func (m Message) Param(name string) string {
	if name == paramMinutes {
		return strconv.Itoa(m.Minutes)
	}
	return m.Code
}

package config

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"sendcode/internal/config/document"
)

// setting is a value with the place that it came from.
type setting struct {
	value, where string
}

// fromEnviron reads the settings from the variables, and from the files that the variables …_FILE name. Empty variables count as
// missing, because container tools pass them. Mistakes are added to errs.
func fromEnviron(environ map[string]string, readFile func(string) ([]byte, error), errs *Errors) map[string]setting {
	given := withPrefix(environ)
	reportUnknown(given, errs)
	settings := map[string]setting{}
	for _, v := range variables {
		s, found := settingOf(v, given, readFile, errs)
		if found && checkValue(s, errs) {
			settings[v.key] = s
		}
	}
	return settings
}

// settingOf returns the value of one setting from its variable or its file. False: neither is given, or there was a mistake, which it
// adds.
func settingOf(v variable, given map[string]string, readFile func(string) ([]byte, error), errs *document.Errors) (setting, bool) {
	name := envName(v.key)
	value, path := given[name], given[name+"_FILE"]
	switch {
	case value != "" && path != "" && v.fromFile:
		errs.Add(name, "is given twice, also as %s_FILE; keep one", name)
		return setting{}, false
	case path != "" && v.fromFile:
		name += "_FILE"
		value, found := fromFile(path, name, readFile, errs)
		return setting{value, name}, found
	}
	return setting{value, name}, value != ""
}

// byName returns the variables by name. Of duplicates the last counts, as in os/exec.
func byName(environ []string) map[string]string {
	all := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		all[name] = value
	}
	return all
}

// withPrefix returns the variables that begin with SENDCODE_.
func withPrefix(environ map[string]string) map[string]string {
	given := map[string]string{}
	for name, value := range environ {
		if strings.HasPrefix(name, prefix) && !strings.HasPrefix(name, testPrefix) {
			given[name] = strings.TrimSpace(value)
		}
	}
	return given
}

// reportUnknown adds a mistake for each SENDCODE_ variable that is no setting.
func reportUnknown(given map[string]string, errs *document.Errors) {
	known := envNames()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, name) && !fromOrchestrator(name, given[name]) {
			errs.Add(document.Plain(name), "there is no such variable%s", suggestVariable(name, known))
		}
	}
}

// suggestVariable returns ", did you mean …?" for an unknown variable. It compares only what follows the common prefix.
func suggestVariable(name string, known []string) string {
	if name == prefix+"PORT" || name == prefix+"HOST" || name == prefix+"LISTEN" {
		return ", did you mean SENDCODE_ADDR=host:port?"
	}
	var short []string
	for _, k := range known {
		short = append(short, strings.TrimPrefix(k, prefix))
	}
	return strings.Replace(document.DidYouMean(strings.TrimPrefix(name, prefix), short), "mean ", "mean "+prefix, 1)
}

// fromFile reads the file that a …_FILE variable names and trims white space, since editors end a file with a line break. False: it
// added a mistake.
func fromFile(path, name string, readFile func(string) ([]byte, error), errs *document.Errors) (string, bool) {
	content, err := readFile(path)
	if err != nil {
		errs.Add(name, "%s cannot be read: %s", document.Plain(path), reasonWithoutPath(err))
		return "", false
	}
	value := strings.TrimSpace(string(content))
	if value == "" {
		errs.Add(name, "%s is empty", document.Plain(path))
		return "", false
	}
	return value, true
}

// checkValue reports whether a value has no control characters; else it adds a mistake, which does not repeat the value.
func checkValue(s setting, errs *document.Errors) bool {
	switch {
	case len(s.value) > document.MaxValue:
		errs.Add(s.where, "is longer than %d bytes", document.MaxValue)
	case !utf8.ValidString(s.value):
		errs.Add(s.where, "is not UTF-8 text")
	case strings.ContainsFunc(s.value, document.IsControl):
		errs.Add(s.where, "contains a line break or another control character")
	default:
		return true
	}
	return false
}

// reasonWithoutPath returns the reason of a failed file operation, without the path.
func reasonWithoutPath(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err.Error()
	}
	return err.Error()
}

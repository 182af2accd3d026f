package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
)

// licenceFile matches the names of files with which modules carry their terms.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licences returns the terms of a module, from the module cache. A module without any is an error:
// it may not be passed on.
func (r release) licences(module string) (map[string][]byte, error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = r.tree
	out, err := cmd.Output()
	var at struct{ Dir string }
	if err = errors.Join(err, json.Unmarshal(out, &at)); err != nil {
		return nil, fmt.Errorf("%s: %w", module, err)
	}
	entries, err := os.ReadDir(at.Dir)
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for _, e := range entries {
		if !e.IsDir() && licenceFile.MatchString(e.Name()) {
			if found[e.Name()], err = os.ReadFile(filepath.Join(at.Dir, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no licence", module)
	}
	return found, nil
}

// notTerms matches those of them that are beside a licence: notices, and promises about patents.
var notTerms = regexp.MustCompile(`(?i)^(notice|patents)`)

// named returns the licences of a module's files: by SPDX identifier, in order, then by the file's
// name where the text has none, such as SQLite's, which is in the public domain. A module without a
// licence that is known is an error: nobody has read its terms.
func named(files map[string][]byte) (*cyclonedx.Licenses, error) {
	ids, others := map[string]bool{}, map[string]bool{}
	for name, text := range files {
		if notTerms.MatchString(name) {
			continue
		}
		found := licensecheck.Scan(text)
		for _, match := range found.Match {
			if !match.IsURL {
				ids[match.ID] = true
			}
		}
		if len(found.Match) == 0 {
			others[name] = true
		}
	}
	if len(ids) == 0 {
		return nil, errors.New("none of its licences is known")
	}
	var licenses cyclonedx.Licenses
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		licenses = append(licenses, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		licenses = append(licenses, cyclonedx.LicenseChoice{License: &cyclonedx.License{Name: name}})
	}
	return &licenses, nil
}

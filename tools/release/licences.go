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

// licenceFileName matches the names of files with the terms of a module.
var licenceFileName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licenceFiles returns the files with a module's terms, by name, from the module cache. It fails
// for a module without terms, because such a module may not be redistributed.
func (r release) licenceFiles(module string) (map[string][]byte, error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = r.tree
	out, err := cmd.Output()
	var downloaded struct{ Dir string }
	if err = errors.Join(err, json.Unmarshal(out, &downloaded)); err != nil {
		return nil, fmt.Errorf("%s: %w", module, err)
	}
	entries, err := os.ReadDir(downloaded.Dir)
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for _, e := range entries {
		if !e.IsDir() && licenceFileName.MatchString(e.Name()) {
			if found[e.Name()], err = os.ReadFile(filepath.Join(downloaded.Dir, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no licence", module)
	}
	return found, nil
}

// notTerms matches the names of files that only accompany a licence: notices, and promises about
// patents.
var notTerms = regexp.MustCompile(`(?i)^(notice|patents)`)

// identifyLicences returns the licences in a module's files: first the SPDX identifiers of those
// that licensecheck recognizes, sorted, then the names of the other files, such as SQLite's, which
// is in the public domain. It fails if licensecheck recognizes none, because such terms have not
// been reviewed.
func identifyLicences(files map[string][]byte) (*cyclonedx.Licenses, error) {
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

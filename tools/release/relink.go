package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sendcode/tools/markdown"
)

// relink corrects the links of the documents in an archive. A link to a file that the archive lacks
// becomes plain text; a link to an example leads to the example's place. A link that is still dead
// is an error.
func relink(files map[string][]byte) error {
	documents := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool { return path.Ext(name) != ".md" })
	for _, name := range documents {
		text := string(files[name])
		for _, l := range markdown.Links(name, text) {
			if moved, ok := archiveNames[l.Target]; ok {
				relativePath, err := filepath.Rel(path.Dir(name), moved)
				if err != nil {
					return err
				}
				text = strings.ReplaceAll(text, l.Raw, "["+l.Text+"]("+filepath.ToSlash(relativePath)+")")
			} else if _, ok := files[l.Target]; !ok && l.Text != "" {
				text = strings.ReplaceAll(text, l.Raw, l.Text)
			}
		}
		files[name] = []byte(text)
	}
	var problems []error
	for _, name := range documents {
		for _, problem := range markdown.DeadLinks(name, string(files[name]), func(target string) (string, error) {
			if content, ok := files[target]; ok {
				return string(content), nil
			}
			return "", fs.ErrNotExist
		}) {
			problems = append(problems, fmt.Errorf("in the archive %s", problem))
		}
	}
	return errors.Join(problems...)
}

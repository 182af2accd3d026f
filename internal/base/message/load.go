package message

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/language"
)

const (
	mailsRoot      = "mail"
	textsRoot      = "sms"
	layoutFile     = mailsRoot + "/layout.html"
	defaultPurpose = "default"
)

// These are indexes of messageKind.files and of templateSet.
const (
	subjectPart = iota
	textPart
	htmlPart
	partCount
)

var purposePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

type templateSetKey struct{ purpose, locale string }

// templateFiles has the contents of the template files by path, with overrides applied.
type templateFiles map[string]string

// messageKind is a kind of messages: mails or text messages.
type messageKind struct {
	root   string            // the directory of its templates
	shared string            // a file of all purposes and locales, if there is one
	files  [partCount]string // of each purpose and locale, by part; empty if the part is missing
	text   string            // these files in words, for errors
	glance []bool            // the values of templateData.Glance for samples
	faults func(part int, out string, codeInPreview bool) []error
}

var (
	mailKind = messageKind{
		root: mailsRoot, shared: layoutFile, files: [partCount]string{"subject.txt", "text.txt", "html.html"},
		text:   "mail/layout.html and mail/<purpose>/<locale>/ with subject.txt, text.txt or html.html",
		glance: []bool{false, true}, faults: mailFaults,
	}
	textKind = messageKind{
		root: textsRoot, files: [partCount]string{textPart: "text.txt"}, text: "sms/<purpose>/<locale>/text.txt",
		glance: []bool{true}, faults: textFaults,
	}
)

// loadSources reads the templates of all trees: the built-in tree, and then the overrides, whose
// files replace earlier files of the same name. A tree may have mails, text messages or both.
// loadSources returns an error for each file that no purpose, locale or part uses. Without this
// error, the operator would not notice a misspelt file name.
func (k messageKind) loadSources(builtin fs.FS, overrides []fs.FS) (templateFiles, []error) {
	all, errs := templateFiles{}, []error(nil)
	for _, tree := range append([]fs.FS{builtin}, overrides...) {
		if dirMissing(tree, k.root) {
			if k.root == mailsRoot && dirMissing(tree, textsRoot) { // only mailKind reports it, so that there is one error
				errs = append(errs, fmt.Errorf("there is no directory %q among the templates", k.root))
			}
			continue
		}
		own, faults := k.readTree(tree)
		maps.Copy(all, own)
		errs = append(errs, faults...)
	}
	return all, errs
}

func dirMissing(tree fs.FS, dir string) bool {
	_, err := fs.Stat(tree, dir)
	return errors.Is(err, fs.ErrNotExist)
}

// readTree returns the contents of the files below the root, and an error for each file that no
// purpose, locale or part uses.
func (k messageKind) readTree(tree fs.FS) (templateFiles, []error) {
	files := templateFiles{}
	var errs []error
	err := fs.WalkDir(tree, k.root, func(name string, entry fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(base, ".") && entry.IsDir(): // .git
			return fs.SkipDir
		case entry.IsDir(), strings.HasPrefix(base, "."), strings.HasSuffix(base, ".md"): // .DS_Store, README.md
			return nil
		}
		content, err := readText(tree, name)
		if err := cmp.Or(k.checkPath(name), err); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			return nil
		}
		files[name] = content
		return nil
	})
	if err != nil {
		errs = append(errs, err)
	}
	return files, errs
}

func (k messageKind) checkPath(name string) error {
	if name == k.shared {
		return nil
	}
	names := strings.Split(name, "/")
	if len(names) != 4 || !slices.Contains(k.files[:], names[3]) {
		return errors.New("no such template: files are " + k.text)
	}
	if !purposePattern.MatchString(names[1]) {
		return errors.New("the purpose must be lower-case letters, digits, _ and -")
	}
	if tag, err := language.Parse(names[2]); err != nil || tag.String() != names[2] {
		return errors.New("the locale is not a canonical BCP 47 tag, such as en, pt-BR or zh-Hans")
	}
	return nil
}

// readText reads a UTF-8 file, removes the byte order mark, and replaces CRLF by LF. It returns an
// error if the file is not valid UTF-8.
func readText(tree fs.FS, name string) (string, error) {
	data, err := fs.ReadFile(tree, name)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(data) {
		return "", errors.New("not valid UTF-8")
	}
	content := strings.TrimPrefix(string(data), "\ufeff")
	return strings.ReplaceAll(content, "\r\n", "\n"), nil
}

// templateSetKeys lists the purposes and locales that have at least one file, sorted.
func (t templateFiles) templateSetKeys() (keys []templateSetKey) {
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if name == layoutFile {
			continue
		}
		names := strings.Split(name, "/")
		keys = append(keys, templateSetKey{names[1], names[2]})
	}
	return slices.Compact(keys)
}

// findOrDefaultPurpose returns a purpose's file, or that of the default purpose if the purpose has
// none. This way, a purpose can replace the subject alone.
func (t templateFiles) findOrDefaultPurpose(root string, k templateSetKey, file string) (name, content string, err error) {
	for _, purpose := range []string{k.purpose, defaultPurpose} {
		name = path.Join(root, purpose, k.locale, file)
		if content, found := t[name]; found {
			return name, content, nil
		}
	}
	return "", "", fmt.Errorf("%s: missing", name)
}

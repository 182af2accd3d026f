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
	root           = "mail"
	layoutFile     = root + "/layout.html"
	defaultPurpose = "default"
)

// The parts of a message.
const (
	subjectPart = iota
	textPart
	htmlPart
	partCount
)

// fileNames are the files of the parts, for each purpose and locale.
var fileNames = [partCount]string{subjectPart: "subject.txt", textPart: "text.txt", htmlPart: "html.html"}

var purposeName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

type setKey struct{ purpose, locale string }

// sources has the contents of the template files by path, with overrides applied.
type sources map[string]string

// loadSources reads the templates of all trees, each of which may have mails, text messages or both. It returns errors for files that no
// purpose, locale or part uses: else a misspelt file name would have no effect, and go unnoticed.
func (l layout) loadSources(builtin fs.FS, overrides []fs.FS) (sources, []error) {
	all, errs := sources{}, []error(nil)
	for _, tree := range append([]fs.FS{builtin}, overrides...) {
		if lacks(tree, l.root) {
			if l.root == root && lacks(tree, textsRoot) { // told once, of mails
				errs = append(errs, fmt.Errorf("there is no directory %q among the templates", l.root))
			}
			continue
		}
		own, faults := l.readTree(tree)
		maps.Copy(all, own)
		errs = append(errs, faults...)
	}
	return all, errs
}

func lacks(tree fs.FS, dir string) bool {
	_, err := fs.Stat(tree, dir)
	return errors.Is(err, fs.ErrNotExist)
}

// layout says where the files of a kind of messages are.
type layout struct {
	root   string
	shared string   // a file of all purposes and locales, if there is one
	files  []string // of each purpose and locale
	text   string   // the same in words
}

var (
	mails = layout{root, layoutFile, fileNames[:], "mail/layout.html and mail/<purpose>/<locale>/ with subject.txt, text.txt or html.html"}
	sms   = layout{textsRoot, "", []string{textFile}, "sms/<purpose>/<locale>/text.txt"}
)

// readTree reads the files below the root.
func (l layout) readTree(tree fs.FS) (sources, []error) {
	files := sources{}
	var errs []error
	err := fs.WalkDir(tree, l.root, func(name string, entry fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(base, ".") && entry.IsDir(): // .git
			return fs.SkipDir
		case entry.IsDir(), strings.HasPrefix(base, "."), strings.HasSuffix(base, ".md"): // .DS_Store, README.md
			return nil
		}
		content, err := readFile(tree, name)
		if err := cmp.Or(l.checkPath(name), err); err != nil {
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

func (l layout) checkPath(name string) error {
	if name == l.shared {
		return nil
	}
	names := strings.Split(name, "/")
	if len(names) != 4 || !slices.Contains(l.files, names[3]) {
		return errors.New("no such template: files are " + l.text)
	}
	if !purposeName.MatchString(names[1]) {
		return errors.New("the purpose must be lower-case letters, digits, _ and -")
	}
	if tag, err := language.Parse(names[2]); err != nil || tag.String() != names[2] {
		return errors.New("the locale is no canonical BCP 47 tag, such as en, pt-BR or zh-Hans")
	}
	return nil
}

// readFile reads a file, and removes a byte order mark and carriage returns.
func readFile(tree fs.FS, name string) (string, error) {
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

// keys lists the purposes and locales that have a file of their own, sorted.
func (s sources) keys() []setKey {
	var keys []setKey
	for name := range s {
		if name == layoutFile {
			continue
		}
		names := strings.Split(name, "/")
		if k := (setKey{names[1], names[2]}); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b setKey) int {
		return strings.Compare(a.purpose+"/"+a.locale, b.purpose+"/"+b.locale)
	})
	return keys
}

// find returns a purpose's file or, if it has none, that of the default purpose. So a purpose may replace only its subject.
func (s sources) find(k setKey, file string) (name, content string, err error) {
	for _, purpose := range []string{k.purpose, defaultPurpose} {
		name = path.Join(root, purpose, k.locale, file)
		if content, found := s[name]; found {
			return name, content, nil
		}
	}
	return "", "", fmt.Errorf("%s: missing", name)
}

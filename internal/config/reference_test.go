package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sendcode/internal/config/document"

	"go.yaml.in/yaml/v3"
)

// The lists of docs/configuration.md and the example file are made of the structs: keys and defaults from the tags, meanings from the
// comments. Run with -update after a change.
func TestReference(t *testing.T) {
	const page = "../../docs/configuration.md"
	lists := map[string]string{"variables": variablesList(t), "file": fileList(t)}
	text := read(t, page)
	for name, want := range lists {
		block := regexp.MustCompile(`(?s)(<!-- of: ` + name + ` -->\n).*?(<!-- end -->)`)
		if !block.MatchString(text) {
			t.Errorf("%s has no list of %s", page, name)
		}
		text = block.ReplaceAllStringFunc(text, func(old string) string {
			around := block.FindStringSubmatch(old)
			return around[1] + want + around[2]
		})
	}
	files := map[string]string{"example.yaml": exampleFile(t), page: text}
	for path, want := range files {
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if read(t, path) != want {
			t.Errorf("%s is not what the structs say: run this test with -update", path)
		}
	}
}

// The example means what holds by default.
func TestExampleIsTheDefault(t *testing.T) {
	c, err := loadYAML(Example)
	byDefault, _ := Load(nil, files{}.read)
	if err != nil || c.YAML() != byDefault.YAML() {
		t.Errorf("%v\n%v", err, c)
	}
}

// A check that a tag names exists, and every check is named.
func TestTagsNameChecks(t *testing.T) {
	source := ""
	for _, dir := range []string{".", "../events", "../sms", "../sms/*"} {
		paths, _ := filepath.Glob(dir + "/*.go")
		for _, path := range paths {
			source += read(t, path)
		}
	}
	named := map[string]bool{}
	for _, found := range regexp.MustCompile(` (?:check|keys):"(\w+)"`).FindAllStringSubmatch(source, -1) {
		if named[found[1]] = true; checks[found[1]] == nil {
			t.Errorf("there is no check %s", found[1])
		}
	}
	for name := range checks {
		if !named[name] {
			t.Errorf("no tag names the check %s", name)
		}
	}
}

// described is a key with its path, its field and the comment above it.
type described struct {
	key, meaning string
	field        reflect.StructField
}

// describe goes through a struct, and through those in it where deep.
func describe(t *testing.T, of reflect.Type, path string, deep bool) (all []described) {
	t.Helper()
	for i := range of.NumField() {
		f := of.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch inner := element(f.Type); {
		case option == "inline" && inner.Kind() == reflect.Struct:
			all = append(all, describe(t, inner, path, deep)...)
		case name == "" || name == "-" || f.Type == reflect.TypeFor[Secret]():
		case deep && inner.Kind() == reflect.Struct && !document.IsScalar(inner) && inner != reflect.TypeFor[Bound]():
			if text := comment(t, of, f.Name); text != "" {
				all = append(all, described{path + name, text, f})
			}
			all = append(all, describe(t, inner, path+name+".", deep)...)
		default:
			text := comment(t, of, f.Name)
			if text == "" {
				t.Errorf("%s.%s has no comment", of, f.Name)
			}
			all = append(all, described{path + name, text, f})
		}
	}
	return all
}

func element(of reflect.Type) reflect.Type {
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		if of.Name() != "" {
			return of
		}
		of = of.Elem()
	}
	return of
}

// fileList has the keys of the file that are no variables. The keys below them are in the example alone.
func fileList(t *testing.T) (text string) {
	t.Helper()
	for _, d := range describe(t, reflect.TypeFor[Config](), "", false) {
		if d.field.Tag.Get("env") == "" {
			text += row("`"+d.key+"`", d.field, d.meaning)
		}
	}
	return text
}

// row returns a line of a list of settings: what it names, its default in brackets, and its meaning.
func row(name string, f reflect.StructField, meaning string) string {
	if unset := initial(f); unset != "" {
		name += " (" + unset + ")"
	}
	return "- " + name + ": " + meaning + "\n"
}

func initial(f reflect.StructField) string {
	switch text := f.Tag.Get("default"); {
	case text != "":
		return "`" + text + "`"
	case f.Tag.Get("required") != "":
		return "required"
	}
	return f.Tag.Get("unset")
}

func variablesList(t *testing.T) string {
	t.Helper()
	text := ""
	for _, v := range variables {
		marks, f := "", reflect.TypeFor[Config]().FieldByIndex(v.index)
		if v.kind() == "file" {
			marks += "*"
		}
		if v.isSecret() || strings.Contains(v.tag.Get("env"), " ") {
			marks += "†"
		}
		of := reflect.TypeFor[Config]()
		if len(v.index) > 1 {
			of = of.Field(v.index[0]).Type
		}
		text += row("`"+envName(v.key)+"`"+marks, f, comment(t, of, f.Name))
	}
	return text
}

// comment is what stands above a field, on one line.
func comment(t *testing.T, of reflect.Type, name string) string {
	t.Helper()
	dir := filepath.Join("../..", strings.TrimPrefix(of.PkgPath(), "sendcode/"))
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if parsed[path] == nil {
			if parsed[path], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments); err != nil {
				t.Fatal(err)
			}
		}
		if spec := parsed[path].Scope.Lookup(of.Name()); spec != nil {
			for _, f := range spec.Decl.(*ast.TypeSpec).Type.(*ast.StructType).Fields.List {
				if len(f.Names) > 0 && f.Names[0].Name == name {
					return strings.Join(strings.Fields(f.Doc.Text()), " ")
				}
			}
		}
	}
	return ""
}

var parsed = map[string]*ast.File{}

var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// exampleFile is the file with everything in it, as it is by default.
func exampleFile(t *testing.T) string {
	t.Helper()
	c, err := Load(nil, files{}.read)
	if err != nil {
		t.Fatal(err)
	}
	root := encoder.EncodeStruct(reflect.ValueOf(&c).Elem())
	annotate(t, root, reflect.TypeFor[Config]())
	var body strings.Builder
	for i := 0; i < len(root.Content); i += 2 {
		encoder := yaml.NewEncoder(&body)
		encoder.SetIndent(2)
		body.WriteString("\n")
		if err := encoder.Encode(&yaml.Node{Kind: yaml.MappingNode, Content: root.Content[i : i+2]}); err != nil {
			t.Fatal(err)
		}
	}
	return "# All settings of the file that SENDCODE_CONFIG names, with what holds by default. Leave out what you do not change.\n" +
		"# docs/configuration.md, docs/sms.md and docs/provider-events.md say more.\n" + body.String()
}

// annotate writes comments above keys. Of lists, and of what is printed on one line or not at all, the keys stand in the comment.
func annotate(t *testing.T, n *yaml.Node, of reflect.Type) {
	t.Helper()
	for _, d := range describe(t, of, "", false) {
		key, value := mappingEntry(n, d.key)
		text, inner := wrap(d.meaning, ""), element(d.field.Type)
		switch {
		case inner.Kind() != reflect.Struct || document.IsScalar(inner):
		case value != nil && inner == d.field.Type && value.Style != yaml.FlowStyle:
			annotate(t, value, inner)
		default:
			text += keys(t, inner, "  ")
		}
		if inner == reflect.TypeFor[SMSCarrier]() {
			for _, c := range carrierTypes {
				text += "\nWith type: " + c.name + keys(t, reflect.TypeOf(c.settings()).Elem(), "  ")
			}
		}
		if key != nil {
			key.HeadComment = text
		} else {
			last := n.Content[len(n.Content)-2]
			last.FootComment = strings.TrimPrefix(last.FootComment+"\n"+d.key+":\n"+text, "\n")
		}
	}
}

func keys(t *testing.T, of reflect.Type, indent string) (text string) {
	t.Helper()
	for _, d := range describe(t, of, "", true) {
		given := d.field.Tag.Get("default")
		if d.field.Tag.Get("required") != "" {
			given = "(required)"
		}
		text += "\n" + indent + strings.TrimSpace(d.key+": "+given) + "\n" + wrap(d.meaning, indent+"    ")
	}
	return text
}

func wrap(text, indent string) string {
	var lines []string
	line := indent
	for _, word := range strings.Fields(link.ReplaceAllString(text, "$1")) {
		if len(line)+len(word) > 110 && line != indent {
			lines, line = append(lines, line), indent
		}
		line += word + " "
	}
	lines = append(lines, line)
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

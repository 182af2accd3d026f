package config

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/base/document"
	"sendcode/internal/kit/golden"
	"sendcode/internal/kit/servertest"

	"go.yaml.in/yaml/v3"
)

// The table of docs/configuration.md and the example file are generated from the structs: keys and
// defaults from the tags, meanings from the comments. Run the test with -update after a change.
func TestReference(t *testing.T) {
	const page = "../../../docs/configuration.md"
	text := read(t, page)
	before, rest, found := strings.Cut(text, "<!-- of: variables -->\n")
	_, after, ended := strings.Cut(rest, "<!-- end -->")
	if !found || !ended {
		t.Errorf("%s has no table of variables", page)
	}
	text = before + "<!-- of: variables -->\n" + variablesTable(t) + "<!-- end -->" + after
	golden.File(t, "example.yaml", exampleFile(t))
	golden.File(t, page, text)
}

// The example file sets each setting to its default.
func TestExampleIsTheDefault(t *testing.T) {
	c, err := loadYAML(Example)
	byDefault, _ := Load(nil, files{}.read)
	if err != nil || c.YAML() != byDefault.YAML() {
		t.Errorf("%v\n%v", err, c)
	}
}

// settings returns the paths of the source files whose structs are decoded from settings.
func settings(t *testing.T) (paths []string) {
	t.Helper()
	for _, dir := range []string{".", "../../base/document", "../../codes/policy", "../../verify/humancheck/vendors", "../../deliver/feedback", "../../deliver/sms", "../../deliver/sms/*"} {
		found, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(found) == 0 {
			t.Fatalf("no sources in %s: %v", dir, err)
		}
		paths = append(paths, slices.DeleteFunc(found, func(path string) bool { return strings.HasSuffix(path, "_test.go") })...)
	}
	return paths
}

// Each check that a tag names exists, and a tag names each check.
func TestTagsNameChecks(t *testing.T) {
	named := map[string]bool{}
	for _, path := range settings(t) {
		for _, found := range regexp.MustCompile(` (?:check|keys):"(\w+)"`).FindAllStringSubmatch(read(t, path), -1) {
			if named[found[1]] = true; checksByName[found[1]] == nil {
				t.Errorf("there is no check %s", found[1])
			}
		}
	}
	for name := range checksByName {
		if !named[name] {
			t.Errorf("no tag names the check %s", name)
		}
	}
}

// described is a key with its path, its field, and the comment above the field.
type described struct {
	key, meaning string
	field        reflect.StructField
}

// describe returns the settings of a struct and, if deep is true, of the structs in it. It fails
// the test if a setting has no comment, unless deep is true and the setting is a struct.
func describe(t *testing.T, of reflect.Type, path string, deep bool) (all []described) {
	t.Helper()
	for i := range of.NumField() {
		f := of.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		inner, text := element(f.Type), comments(t)[of.String()+"."+f.Name]
		several := inner.Kind() == reflect.Struct && !document.IsScalar(inner)
		switch {
		case option == "inline" && inner.Kind() == reflect.Struct:
			all = append(all, describe(t, inner, path, deep)...)
			continue
		case name == "" || name == "-":
			continue
		case text != "":
			all = append(all, described{path + name, text, f})
		case !deep || !several:
			t.Errorf("%s.%s has no comment", of, f.Name)
		}
		if deep && several {
			all = append(all, describe(t, inner, path+name+".", deep)...)
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

// variablesTable returns a row for each variable: its name, its key in the file if it has one, what
// holds if it is not set, and its meaning.
func variablesTable(t *testing.T) string {
	t.Helper()
	all := map[string]described{
		configFileKey: {meaning: "Path of the YAML file."},
		configTextKey: {meaning: "The text of the YAML file, in place of its path. The service reads it only when it starts."},
	}
	for _, d := range describe(t, reflect.TypeFor[Config](), "", true) {
		all[d.key] = d
	}
	text := "| variable | key in the file | default | meaning |\n|---|---|---|---|\n"
	for _, v := range envVariables {
		name, key, unset := "`"+envName(v.key)+"`", "`"+v.key+"`", all[v.key].field.Tag.Get("unset")
		if v.kind == "file" {
			name += "*"
		}
		if v.secret || v.key == configFileKey || v.key == configTextKey {
			key = ""
		}
		if byDefault := all[v.key].field.Tag.Get("default"); byDefault != "" {
			unset = "`" + byDefault + "`"
		}
		text += "| " + strings.Join([]string{name, key, unset, all[v.key].meaning}, " | ") + " |\n"
	}
	return text + "| `" + portVariable + "` | | | The service listens at this port on all interfaces, if neither `SENDCODE_ADDR` nor `addr` is set. Platforms set it. |\n"
}

// comments returns the comments above fields, each on one line, by package, struct and field:
// "config.App.Title".
func comments(t *testing.T) map[string]string {
	t.Helper()
	if len(parsed) > 0 {
		return parsed
	}
	for _, path := range settings(t) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		servertest.OK(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if fields, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range fields.Fields.List {
					for _, name := range f.Names {
						parsed[file.Name.Name+"."+spec.Name.Name+"."+
							name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
					}
				}
			}
			return false
		})
	}
	return parsed
}

var parsed = map[string]string{}

var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// exampleFile returns a file with every setting at its default.
func exampleFile(t *testing.T) string {
	t.Helper()
	c, err := Load(nil, files{}.read)
	servertest.OK(t, err)
	root := c.yamlNode()
	annotate(t, root, reflect.TypeFor[Config]())
	var body strings.Builder
	for i := 0; i < len(root.Content); i += 2 {
		encoder := yaml.NewEncoder(&body)
		encoder.SetIndent(2)
		body.WriteString("\n")
		servertest.OK(t, encoder.Encode(&yaml.Node{Kind: yaml.MappingNode, Content: root.Content[i : i+2]}))
	}
	return "# yaml-language-server: $schema=schema.json\n" +
		"# Editors complete by this schema; `sendcode config --schema > schema.json` writes it.\n\n" +
		"# All settings of the file that SENDCODE_CONFIG names, with what holds by default. Leave out what you do not change.\n" +
		"# docs/configuration.md, docs/sms.md and docs/provider-events.md say more.\n" +
		// a file that is kept when SENDCODE_DATABASE_URL is added must not say 0s
		strings.Replace(body.String(), "\ndrain: 0s\n", "\n# drain: 10s\n", 1)
}

// annotate writes comments above keys. For lists, and for structs that are printed on one line or
// not at all, the comment also lists the keys in them.
func annotate(t *testing.T, n *yaml.Node, of reflect.Type) {
	t.Helper()
	for _, d := range describe(t, of, "", false) {
		if d.field.Type == reflect.TypeFor[Secret]() {
			continue
		}
		key, value := document.FindEntry(n, d.key)
		text, inner := wrap(d.meaning, ""), element(d.field.Type)
		switch {
		case inner.Kind() != reflect.Struct || document.IsScalar(inner):
		case value != nil && len(value.Content) > 0 && inner == d.field.Type && value.Style != yaml.FlowStyle:
			annotate(t, value, inner)
		default:
			text += keysOf(t, inner, "  ")
		}
		if inner == reflect.TypeFor[SMSCarrier]() {
			for _, c := range carrierTypes {
				text += "\nWith type: " + c.name + keysOf(t, reflect.TypeOf(c.settings()).Elem(), "  ")
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

func keysOf(t *testing.T, of reflect.Type, indent string) (text string) {
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

// wrap returns a text without links in lines of 110 characters.
func wrap(text, indent string) string {
	printer := comment.Printer{TextPrefix: indent, TextWidth: 110}
	return strings.TrimRight(string(printer.Text(new(comment.Parser).Parse(link.ReplaceAllString(text, "$1")))), "\n")
}

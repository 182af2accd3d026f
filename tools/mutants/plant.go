package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mutant is one small change of a file.
type mutant struct {
	File     string // relative to the root
	Func     string // a function with its receiver, a constant or variable, or a file's name
	Operator string
	Line     int

	start, end int    // the old text is between these offsets in the file, in bytes
	old, with  string // the old and the new text
	pkg        *area
	number     int // counts the mutants of the same function and operator, from 1
}

// name identifies the mutant while its function stays the same.
func (m mutant) name() string {
	return fmt.Sprintf("%s %s %s %d", strings.TrimPrefix(m.pkg.Package, "./"), m.Func, m.Operator, m.number)
}

func (m mutant) change() string {
	return fmt.Sprintf("%s:%d: %s  =>  %s", m.File, m.Line, oneLine(m.old), oneLine(m.with))
}

// oneLine returns a text as it is printed: shortened, and without the indentation of its lines.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 90 {
		text = text[:60] + " ... " + text[len(text)-25:]
	}
	return cmp.Or(text, "(nothing)")
}

// planter finds the mutants of one package, file by file.
type planter struct {
	source   *source
	file     string
	text     []byte
	funcName string // mutant.Func of the mutants that it adds
	counts   map[string]int
	all      []mutant
}

// plant returns all mutants of an area: those in the Go files of its package, those in its Lua
// scripts, and those of its Also. Some of the Go mutants do not compile; see source.compiles. These
// are the operators:
//
//	condition   the condition of an if or a case, a result or an argument of type bool is negated
//	operand     one side of && or || is left out
//	bound       a comparison is shifted by one or turned round, + and -, * and /, min and max are exchanged
//	branch      a branch or the body of a range loop is emptied
//	error       nil is returned in place of an error
//	constant    an integer is raised by one; true and false are exchanged
//	call        a call whose result is not used is left out
//	assignment  an assignment is left out
//	defer       a deferred call is left out
//	element     a field or an element of a composite literal is left out
//	context     context.WithoutCancel(ctx) becomes ctx
//	sql, lua    a comparison, a number or a keyword of a statement or a script is exchanged or left out
//	also        a change that mutants.yaml lists, because no other operator makes it
func plant(s *source) (all []mutant, err error) {
	p := planter{source: s, counts: map[string]int{}}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		p.file, p.text = name, s.texts[name]
		for _, d := range s.files[name].Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				p.funcName = d.Name.Name
				if d.Recv != nil {
					p.funcName = strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*") + "." + p.funcName
				}
				if d.Body != nil {
					ast.Inspect(d.Body, p.visit)
				}
			case *ast.GenDecl:
				if d.Tok != token.CONST && d.Tok != token.VAR {
					continue
				}
				for _, spec := range d.Specs {
					v := spec.(*ast.ValueSpec)
					p.funcName = v.Names[0].Name
					ast.Inspect(v, p.visit)
				}
			}
		}
	}
	others, err := filepath.Glob(filepath.Join(s.dir, "*.lua"))
	if err != nil {
		return nil, err
	}
	for _, name := range others {
		if p.text, err = os.ReadFile(name); err != nil {
			return nil, err
		}
		p.file, p.funcName = filepath.Join(filepath.Dir(p.file), filepath.Base(name)), filepath.Base(name)
		p.replaceTokens("lua", 0, luaTokens)
	}
	for _, x := range s.area.Also {
		if p.text, err = os.ReadFile(filepath.Join(s.root, x.File)); err != nil {
			return nil, err
		}
		if n := strings.Count(string(p.text), x.Find); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times", x.File, x.Find, n)
		}
		p.file, p.funcName = x.File, filepath.Base(x.File)
		at := strings.Index(string(p.text), x.Find)
		p.add("also", at, at+len(x.Find), x.With)
	}
	return p.all, nil
}

// replace adds a mutant that replaces the text from one position to another.
func (p *planter) replace(operator string, from, to token.Pos, with string) {
	f := p.source.fset.File(from)
	p.add(operator, f.Offset(from), f.Offset(to), with)
}

func (p *planter) add(operator string, start, end int, with string) {
	key := p.funcName + " " + operator
	p.counts[key]++
	p.all = append(p.all, mutant{
		File: p.file, Func: p.funcName, Operator: operator, Line: 1 + strings.Count(string(p.text[:start]), "\n"),
		start: start, end: end, old: string(p.text[start:end]), with: with, pkg: p.source.area, number: p.counts[key],
	})
}

func (p *planter) textOf(n ast.Node) string {
	f := p.source.fset.File(n.Pos())
	return string(p.text[f.Offset(n.Pos()):f.Offset(n.End())])
}

// comparisons maps operators of comparison and arithmetic to their replacements.
var comparisons = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*",
}

// visit adds the mutants of a node. It leaves out changes that a test can hardly notice: the sizes
// of arrays and in calls of make, and log lines.
func (p *planter) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		p.negate(n.Cond)
		p.empty(n.Body.Lbrace, n.Body.Rbrace, n.Body.List)
		if e, is := n.Else.(*ast.BlockStmt); is {
			p.empty(e.Lbrace, e.Rbrace, e.List)
		}
	case *ast.RangeStmt:
		p.empty(n.Body.Lbrace, n.Body.Rbrace, n.Body.List)
	case *ast.SwitchStmt:
		for _, c := range n.Body.List {
			if c := c.(*ast.CaseClause); n.Tag == nil {
				for _, x := range c.List {
					p.negate(x)
				}
			}
		}
	case *ast.CaseClause:
		p.empty(n.Colon, n.End(), n.Body)
	case *ast.BinaryExpr:
		p.binary(n)
	case *ast.ReturnStmt:
		p.dropError(n)
		p.negateAll(n.Results)
	case *ast.BasicLit:
		p.literal(n)
	case *ast.Ident:
		if obj := p.source.info.Uses[n]; obj == types.Universe.Lookup("true") {
			p.replace("constant", n.Pos(), n.End(), "false")
		} else if obj == types.Universe.Lookup("false") {
			p.replace("constant", n.Pos(), n.End(), "true")
		} else if obj == types.Universe.Lookup("min") {
			p.replace("bound", n.Pos(), n.End(), "max")
		} else if obj == types.Universe.Lookup("max") {
			p.replace("bound", n.Pos(), n.End(), "min")
		}
	case *ast.ExprStmt:
		if isLog(n.X) {
			return false
		}
		p.remove("call", n.Pos(), n.End(), n.X)
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			p.replace("assignment", n.Pos(), n.End(), "")
		}
	case *ast.IncDecStmt:
		p.replace("assignment", n.Pos(), n.End(), "")
	case *ast.DeferStmt:
		p.remove("defer", n.Pos(), n.End(), n.Call)
	case *ast.CallExpr:
		if types.ExprString(n.Fun) == "context.WithoutCancel" {
			p.replace("context", n.Pos(), n.End(), p.textOf(n.Args[0]))
		}
		p.negateAll(n.Args)
		return !isCallOf(n, "make")
	case *ast.CompositeLit:
		p.leaveOut(n)
	case *ast.ArrayType:
		return false
	}
	return true
}

// remove adds a mutant without a call. It leaves out calls that lock or unlock, because without
// them nearly every test of the function hangs or crashes, whatever it checks.
func (p *planter) remove(operator string, from, to token.Pos, x ast.Expr) {
	if call, is := x.(*ast.CallExpr); is && !lockMethod.MatchString(types.ExprString(call.Fun)) {
		p.replace(operator, from, to, "")
	}
}

func (p *planter) negate(cond ast.Expr) {
	p.replace("condition", cond.Pos(), cond.End(), "!("+p.textOf(cond)+")")
}

// negateAll negates results and arguments of type bool, unless they are true or false.
func (p *planter) negateAll(all []ast.Expr) {
	for _, x := range all {
		t := p.source.info.Types[x]
		if b, is := t.Type.(*types.Basic); is && b.Kind() == types.Bool && t.Value == nil && !t.IsNil() {
			p.negate(x)
		}
	}
}

// leaveOut adds a mutant for each named field of a struct literal, and for each element of another
// composite literal. The mutant lacks this field or element.
func (p *planter) leaveOut(n *ast.CompositeLit) {
	for i, x := range n.Elts {
		_, keyed := x.(*ast.KeyValueExpr)
		_, ofStruct := p.source.info.Types[n].Type.Underlying().(*types.Struct)
		switch {
		case ofStruct && !keyed:
		case i+1 < len(n.Elts):
			p.replace("element", x.Pos(), n.Elts[i+1].Pos(), "")
		default:
			p.replace("element", x.Pos(), n.Rbrace, "")
		}
	}
}

func (p *planter) empty(after, end token.Pos, body []ast.Stmt) {
	if len(body) > 0 {
		p.replace("branch", after+1, end, "")
	}
}

func (p *planter) binary(n *ast.BinaryExpr) {
	switch {
	case n.Op == token.LAND || n.Op == token.LOR:
		p.replace("operand", n.X.End(), n.Y.End(), "")
		p.replace("operand", n.X.Pos(), n.Y.Pos(), "")
	case comparisons[n.Op] != "" && p.source.info.Types[n].Value == nil && !isString(p.source.info.Types[n.X].Type, n.Op):
		p.replace("bound", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), comparisons[n.Op])
	}
}

// isString reports whether op is a + that concatenates strings.
func isString(t types.Type, op token.Token) bool {
	b, is := t.Underlying().(*types.Basic)
	return is && op == token.ADD && b.Info()&types.IsString != 0
}

// dropError adds a mutant that returns nil in place of an error.
func (p *planter) dropError(n *ast.ReturnStmt) {
	if len(n.Results) == 0 {
		return
	}
	last := n.Results[len(n.Results)-1]
	t := p.source.info.Types[last]
	if t.Type != nil && !t.IsNil() && types.AssignableTo(t.Type, types.Universe.Lookup("error").Type()) {
		p.replace("error", last.Pos(), last.End(), "nil")
	}
}

func (p *planter) literal(n *ast.BasicLit) {
	v := constant.MakeFromLiteral(n.Value, n.Kind, 0)
	switch n.Kind {
	case token.INT:
		if i, exact := constant.Int64Val(v); exact {
			p.replace("constant", n.Pos(), n.End(), strconv.FormatInt(i+1, 10))
		}
	case token.STRING:
		if sqlText.MatchString(n.Value) {
			p.replaceTokens("sql", p.source.fset.File(n.Pos()).Offset(n.Pos()), sqlTokens, n.Value)
		}
	}
}

var lockMethod = regexp.MustCompile(`\.R?(Unl|L)ock$`)

func isLog(x ast.Expr) bool {
	call, is := x.(*ast.CallExpr)
	if !is {
		return false
	}
	name := types.ExprString(call.Fun)
	return strings.Contains(strings.ToLower(name), "logger.") || strings.HasPrefix(name, "logs.")
}

func isCallOf(call *ast.CallExpr, name string) bool {
	f, is := call.Fun.(*ast.Ident)
	return is && f.Name == name
}

// replaceTokens adds a mutant for each token of a text that has a replacement. The text is the
// whole file, or a literal at the offset.
func (p *planter) replaceTokens(operator string, offset int, tokens tokenTable, literal ...string) {
	text := string(p.text)
	if len(literal) > 0 {
		text = literal[0]
	}
	for _, at := range tokens.pattern.FindAllStringSubmatchIndex(text, -1) {
		if at[2] < 0 { // a comment or a string
			continue
		}
		word := text[at[2]:at[3]]
		with, found := tokens.with[strings.ToUpper(word)]
		if n, err := strconv.Atoi(word); err == nil {
			with, found = strconv.Itoa(n+1), true
		}
		if strings.HasSuffix(word, ")") { // a call in Lua, which is left out
			with, found = "", true
		}
		if found {
			p.add(operator, offset+at[2], offset+at[3], with)
		}
	}
}

// source is the parsed and type-checked package of an area.
type source struct {
	area  *area
	root  string
	dir   string
	path  string
	fset  *token.FileSet
	files map[string]*ast.File
	texts map[string][]byte
	info  *types.Info
	deps  types.Importer
}

// check type-checks the package, with another text for one of its files.
func (s *source) check(file string, text []byte, info *types.Info) error {
	var files []*ast.File
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		parsed := s.files[name]
		if name == file {
			var err error
			if parsed, err = parser.ParseFile(s.fset, name, text, parser.SkipObjectResolution); err != nil {
				return err
			}
		}
		files = append(files, parsed)
	}
	_, err := (&types.Config{Importer: s.deps}).Check(s.path, s.fset, files, info)
	return err
}

func (m mutant) mutated(text []byte) []byte {
	return slices.Concat(text[:m.start], []byte(m.with), text[m.end:])
}

func (s *source) compiles(m mutant) bool {
	return filepath.Ext(m.File) != ".go" || s.check(m.File, m.mutated(s.texts[m.File]), nil) == nil
}

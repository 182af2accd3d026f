package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
)

// edit replaces the bytes from start to end of a file.
type edit struct {
	start, end int
	with       string
	label      string
}

func (e edit) apply(text []byte) []byte {
	out := append([]byte{}, text[:e.start]...)
	return append(append(out, e.with...), text[e.end:]...)
}

// opposites are operators that are taken for each other.
var opposites = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR, token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD,
}

// generator collects the edits of one file.
type generator struct {
	files *token.FileSet
	text  []byte
	in    string // the function
	edits []edit
	times map[string]int // of each label
}

// editsOf are the generic mutants of a file: an operator that is taken for its neighbour, a number that is one more, a statement
// that is left out, a condition that is turned around, true for false, the least for the greatest.
func editsOf(name string, text []byte) ([]edit, error) {
	g := &generator{files: token.NewFileSet(), text: text, times: map[string]int{}}
	file, err := parser.ParseFile(g.files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			g.in = f.Name.Name
			ast.Inspect(f.Body, g.visit)
		}
	}
	return g.edits, nil
}

func (g *generator) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		g.operator(n)
	case *ast.IfStmt:
		g.add(n.Cond.Pos(), n.Cond.End(), "!("+g.source(n.Cond)+")", "if "+g.source(n.Cond), "the other branch")
	case *ast.BlockStmt:
		g.dropped(n.List)
	case *ast.CaseClause:
		g.dropped(n.Body)
	case *ast.Ident:
		g.ident(n)
	case *ast.BasicLit:
		if i, err := strconv.Atoi(n.Value); err == nil && n.Kind == token.INT {
			g.add(n.Pos(), n.End(), strconv.Itoa(i+1), g.line(n), n.Value+" is one more")
		}
	}
	return true
}

func (g *generator) operator(n *ast.BinaryExpr) {
	if isText(n.X) || isText(n.Y) {
		return
	}
	if to, ok := opposites[n.Op]; ok {
		end := n.OpPos + token.Pos(len(n.Op.String()))
		g.add(n.OpPos, end, to.String(), g.source(n), n.Op.String()+" is "+to.String())
	}
}

// isText keeps texts from being subtracted.
func isText(x ast.Expr) bool {
	if b, ok := x.(*ast.BinaryExpr); ok {
		return isText(b.X) || isText(b.Y)
	}
	lit, ok := x.(*ast.BasicLit)
	return ok && lit.Kind == token.STRING && len(lit.Value) > 2
}

// dropped leaves out the statements that no other needs to be there for the program to build.
func (g *generator) dropped(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt:
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.BranchStmt:
			if s.Tok != token.BREAK && s.Tok != token.CONTINUE {
				continue
			}
		default:
			continue
		}
		g.add(s.Pos(), s.End(), "", g.source(s), "left out")
	}
}

func (g *generator) ident(n *ast.Ident) {
	other := map[string]string{"true": "false", "false": "true", "min": "max", "max": "min"}[n.Name]
	if other != "" {
		g.add(n.Pos(), n.End(), other, g.line(n), n.Name+" is "+other)
	}
}

func (g *generator) add(start, end token.Pos, with, of, what string) {
	label := fmt.Sprintf("%s: %s: %s", g.in, oneLine(of), what)
	if g.times[label]++; g.times[label] > 1 {
		label += fmt.Sprintf(" (%d)", g.times[label])
	}
	g.edits = append(g.edits, edit{g.offset(start), g.offset(end), with, label})
}

func (g *generator) offset(p token.Pos) int { return g.files.Position(p).Offset }

func (g *generator) source(n ast.Node) string {
	return string(g.text[g.offset(n.Pos()):g.offset(n.End())])
}

// line is the whole line in which a node begins.
func (g *generator) line(n ast.Node) string {
	start, end := g.offset(n.Pos()), g.offset(n.Pos())
	for start > 0 && g.text[start-1] != '\n' {
		start--
	}
	for end < len(g.text) && g.text[end] != '\n' {
		end++
	}
	return string(g.text[start:end])
}

package message

import (
	"fmt"
	"reflect"
	"strings"
	"text/template/parse"
)

// unknownFields returns an error for each field in a template that does not exist in templateData.
// It also finds fields in branches that no sample executes.
func unknownFields(tree *parse.Tree) []error {
	var errs []error
	visitNodes(tree.Root, func(n parse.Node) {
		var names []string
		switch n := n.(type) {
		case *parse.FieldNode:
			names = n.Ident
		case *parse.VariableNode:
			names = n.Ident[1:]
		case *parse.ChainNode:
			names = append([]string{""}, n.Field...) // always unknown, because no field of templateData has fields
		}
		if len(names) == 0 || len(names) == 1 && isField(names[0]) {
			return
		}
		where, _ := tree.ErrorContext(n)
		errs = append(errs, fmt.Errorf("template: %s: there is no field .%s", where,
			strings.Trim(strings.Join(names, "."), ".")))
	})
	return errs
}

func isField(name string) bool {
	field, found := reflect.TypeFor[templateData]().FieldByName(name)
	return found && !field.Anonymous
}

// visitNodes calls f for a node and all nodes below this node. It finds the child nodes by
// reflection, so that no kind of node is missed.
func visitNodes(node parse.Node, f func(parse.Node)) {
	f(node)
	visitFields(reflect.Indirect(reflect.ValueOf(node)), f)
}

func visitFields(v reflect.Value, f func(parse.Node)) {
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			visitTemplateNodes(v.Field(i), f)
		}
	}
}

func visitTemplateNodes(v reflect.Value, f func(parse.Node)) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			visitTemplateNodes(v.Index(i), f)
		}
	case reflect.Struct: // the BranchNode in an IfNode, RangeNode or WithNode
		visitFields(v, f)
	case reflect.Pointer, reflect.Interface:
		if n, ok := v.Interface().(parse.Node); ok && !v.IsNil() {
			visitNodes(n, f)
		}
	}
}

package main

import "regexp"

// tokenTable has the tokens of a language with their replacements. Group 1 of the pattern is a
// token. The pattern also matches comments and strings, so that no token in them is replaced.
type tokenTable struct {
	pattern *regexp.Regexp
	with    map[string]string // the replacements, by the token in capitals; numbers are raised by one
}

// luaTokens change no syntax, because every test would notice a script that Redis cannot compile.
var luaTokens = tokenTable{
	regexp.MustCompile(`--[^\n]*|'[^'\n]*'|"[^"\n]*"|(<=|>=|==|~=|<|>|\+|\s-\s|\*|\b(?:and|or|not|true|false|math\.max|math\.min|math\.ceil|math\.floor|\d+)\b|(?m:^\s*(?:prune|expire|call)\([^=\n]*\)$))`),
	map[string]string{
		"<=": "<", "<": "<=", ">=": ">", ">": ">=", "==": "~=", "~=": "==", "+": "-", " - ": " + ", "AND": "or", "OR": "and", "NOT": "",
		"TRUE": "false", "FALSE": "true", "MATH.MAX": "math.min", "MATH.MIN": "math.max",
		"MATH.CEIL": "math.floor", "MATH.FLOOR": "math.ceil",
	},
}

// sqlText matches literals that are statements, or parts of one.
var sqlText = regexp.MustCompile(`(?s)\b(SELECT|UPDATE|INSERT|DELETE|WHERE|JOIN|CASE WHEN|ORDER BY)\b|\b(AND|OR|NOT) [a-z@$(]`)

var sqlTokens = tokenTable{
	regexp.MustCompile(`--[^\n]*|'[^'\n]*'|(<=|>=|<>|!=|<|>|=|\+|\b(?:AND|OR|IS NOT NULL|IS NULL|NOT EXISTS|EXISTS|NOT IN|IN|ASC|DESC|FOR UPDATE|FOR NO KEY UPDATE|FOR KEY SHARE|\d+|pg_advisory_xact_lock|SKIP LOCKED|DISTINCT|greatest|least|max|min|LEFT JOIN|ON CONFLICT DO NOTHING)\b)`),
	map[string]string{
		"<=": "<", "<": "<=", ">=": ">", ">": ">=", "=": "<>", "<>": "=", "!=": "=", "+": "-", "AND": "OR", "OR": "AND",
		"IS NULL": "IS NOT NULL", "IS NOT NULL": "IS NULL", "NOT EXISTS": "EXISTS", "EXISTS": "NOT EXISTS", "NOT IN": "IN", "IN": "NOT IN",
		"ASC": "DESC", "DESC": "ASC", "FOR UPDATE": "", "FOR NO KEY UPDATE": "", "FOR KEY SHARE": "", "PG_ADVISORY_XACT_LOCK": "", "SKIP LOCKED": "", "DISTINCT": "", "GREATEST": "least", "LEAST": "greatest",
		"MAX": "min", "MIN": "max", "LEFT JOIN": "JOIN",
	},
}

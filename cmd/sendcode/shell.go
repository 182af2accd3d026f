package main

import (
	"io"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

// writeManualOrCompletion writes the manual page or a shell's completion script.
func writeManualOrCompletion(w io.Writer, name string, line *kong.Context) error {
	return manualAndCompletionTemplates.ExecuteTemplate(w, name, line.Model)
}

// manualAndCompletionTemplates has the manual page and a completion script for each shell. The
// functions zsh and fish quote a help text for a single-quoted string of that shell, and roff for
// man(7).
var manualAndCompletionTemplates = template.Must(template.New("").Funcs(template.FuncMap{
	"zsh":  strings.NewReplacer(`'`, `'\''`, `:`, `\:`, `[`, `\[`, `]`, `\]`).Replace,
	"fish": strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace,
	"roff": strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, `"`, `\(dq`).Replace,
	"flags": func(n *kong.Node) (flags []*kong.Flag) {
		for _, f := range n.Flags {
			if !f.Hidden {
				flags = append(flags, f)
			}
		}
		return flags
	},
	"values": func(v *kong.Value) []string {
		if v.Enum == "" {
			return nil
		}
		return strings.Split(v.Enum, ",")
	},
}).Parse(`
{{- define "bash" -}}
_sendcode() {
  local word=${COMP_WORDS[COMP_CWORD]} words=--help
  case ${COMP_CWORD}:${COMP_WORDS[1]} in
    1:*) words='{{range .Children}}{{.Name}} {{end}}--help' ;;
{{- range .Children}}
    *:{{.Name}}) words='{{range .Positional}}{{range values .}}{{.}} {{end}}{{end}}{{range flags .}}--{{.Name}} {{range values .Value}}{{.}} {{end}}{{end}}--help' ;;
{{- end}}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _sendcode sendcode
{{end}}

{{- define "zsh" -}}
#compdef sendcode
local -a commands=(
{{- range .Children}}
  '{{.Name}}:{{zsh .Help}}'
{{- end}}
)
if (( CURRENT == 2 )); then
  _describe command commands
  return
fi
local command=$words[2]
shift words
(( CURRENT-- ))
case $command in
{{- range .Children}}
  {{.Name}}) _arguments '--help[{{zsh "Show what the command takes."}}]'
  {{- range flags .}} '--{{.Name}}{{if not .IsBool}}={{end}}[{{zsh .Help}}]{{with values .Value}}:value:({{range .}}{{.}} {{end}}){{end}}'{{end}}
  {{- range .Positional}} '{{if not .Required}}:{{end}}:{{.Name}}:{{with values .}}({{range .}}{{.}} {{end}}){{end}}'{{end}} ;;
{{- end}}
esac
{{end}}

{{- define "fish" -}}
complete -c sendcode -f
complete -c sendcode -l help -d 'Show help'
{{- range .Children}}{{$command := .Name}}
complete -c sendcode -n __fish_use_subcommand -a {{.Name}} -d '{{fish .Help}}'
{{- range flags .}}
complete -c sendcode -n '__fish_seen_subcommand_from {{$command}}' -l {{.Name}}{{if not .IsBool}} -x{{end}}{{with values .Value}} -a '{{range .}}{{.}} {{end}}'{{end}} -d '{{fish .Help}}'
{{- end}}
{{- range .Positional}}{{with values .}}
complete -c sendcode -n '__fish_seen_subcommand_from {{$command}}' -a '{{range .}}{{.}} {{end}}'
{{- end}}{{end}}
{{- end}}
{{end}}

{{- define "man" -}}
.TH SENDCODE 1
.SH NAME
sendcode \- send verification codes within a policy
.SH SYNOPSIS
.B sendcode
[\fIcommand\fR] [\fIflags\fR]
.SH DESCRIPTION
{{roff .Help}}
.SH COMMANDS
{{- range .Children}}
.TP
.B {{roff .Name}}{{range .Positional}} {{if .Required}}\fI{{.Name}}\fR{{else}}[\fI{{.Name}}\fR]{{end}}{{end}}
{{roff .Help}}
{{- range .Positional}}
.RS
.TP
\fI{{.Name}}\fR
{{roff .Help}}
.RE
{{- end}}
{{- range flags .}}
.RS
.TP
.B \-\-{{roff .Name}}{{if not .IsBool}}=\fI{{with values .Value}}{{range $i, $v := .}}{{if $i}}|{{end}}{{$v}}{{end}}{{else}}value{{end}}\fR{{end}}
{{roff .Help}}{{if .HasDefault}} Default: {{roff .Default}}.{{end}}
.RE
{{- end}}
{{- end}}
.SH EXIT STATUS
0 for success, 1 for a mistake in the settings or a failure, 2 for a command line that is not understood, 128 and the number of the
signal for a stop that did not wait.
.SH FILES
The file of settings that SENDCODE_CONFIG names;
.B sendcode config \-\-example
prints one.
{{end}}`))

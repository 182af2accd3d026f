//go:build nightly

package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// origin is what a module belongs to, such as github.com/jackc or modernc.org; own code and the
// standard library have names of their own.
func origin(module string) string {
	switch host, rest, _ := strings.Cut(module, "/"); {
	case module == "":
		return "standard library"
	case module == "sendcode":
		return "own code"
	case host == "github.com":
		owner, _, _ := strings.Cut(rest, "/")
		return host + "/" + owner
	default:
		return host
	}
}

// buildCost is what a module takes.
type buildCost struct {
	time  time.Duration // processor time of its compiler, without a build cache
	bytes int64         // of its functions and data in the program, with names
}

func (c buildCost) plus(d buildCost) buildCost { return buildCost{c.time + d.time, c.bytes + d.bytes} }

// packageOf returns the package of a symbol such as github.com/jackc/pgx/v5.(*Conn).Exec, or of a type
// such as type:*net/http.Client; "main" is this program's.
func packageOf(symbol string) string {
	symbol = strings.TrimLeft(strings.TrimPrefix(symbol, "type:"), "*[]")
	symbol, _, _ = strings.Cut(symbol, "[") // type arguments
	dir, rest := "", symbol
	if i := strings.LastIndex(symbol, "/"); i >= 0 {
		dir, rest = symbol[:i+1], symbol[i+1:]
	}
	rest, _, _ = strings.Cut(rest, ".")
	if name := strings.ReplaceAll(dir+rest, "%2e", "."); name != "main" {
		return name
	}
	return "sendcode/cmd/sendcode"
}

// TestBuild prints what each module costs: processor time of a cold build, and bytes of the program.
// It needs rounds, as TestBudget, and no rig; without them it does nothing.
func TestBuild(t *testing.T) {
	if *rounds == 0 {
		return
	}
	b := &rig{T: t, dir: t.TempDir()}
	said := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = "../.."
		out, err := cmd.Output()
		b.must(err)
		return string(out)
	}
	of := map[string]string{} // package to origin
	for line := range strings.Lines(said("list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}", "./cmd/sendcode")) {
		path, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		of[path] = origin(module)
	}
	program, graph := filepath.Join(b.dir, "sendcode"), filepath.Join(b.dir, "actions.json")
	said("build", "-a", "-buildvcs=false", "-debug-actiongraph="+graph, "-o", program, "./cmd/sendcode")
	var actions []struct {
		Mode, Package   string
		CmdUser, CmdSys time.Duration
	}
	text, err := os.ReadFile(graph)
	b.must(err)
	b.must(json.Unmarshal(text, &actions))
	costs := map[string]buildCost{}
	for _, a := range actions {
		name := cmp.Or(of[a.Package], "others")
		if a.Mode == "link" {
			name = "linking"
		}
		costs[name] = costs[name].plus(buildCost{a.CmdUser + a.CmdSys, 0})
	}
	for line := range strings.Lines(said("tool", "nm", "-size", program)) {
		if f := strings.Fields(line); len(f) >= 4 && f[2] != "U" && strings.ToUpper(f[2]) != "B" {
			size, err := strconv.ParseInt(f[1], 10, 64)
			b.must(err)
			name := cmp.Or(of[packageOf(f[3])], "others")
			costs[name] = costs[name].plus(buildCost{0, size})
		}
	}
	b.publish(section{"RESULTS.md", "Build", "Processor time of a build without a cache, and bytes of functions and data in the program, " +
		"by the origin of the modules.\n\n" + tableOfBuild(costs)})
}

// tableOfBuild has the origins that take at least a hundredth of time or bytes; the rest are others.
func tableOfBuild(costs map[string]buildCost) string {
	var all buildCost
	for _, c := range costs {
		all = all.plus(c)
	}
	others := buildCost{}
	var names []string
	for name, c := range costs {
		if name == "others" || c.time*100 < all.time && c.bytes*100 < all.bytes {
			others = others.plus(c)
		} else {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(costs[b].time, costs[a].time) })
	row := func(name string, c buildCost) []string {
		return []string{name, fmt.Sprintf("%.1f", c.time.Seconds()), fmt.Sprintf("%.1f", float64(c.bytes)/1e6)}
	}
	rows := [][]string{{"modules of", "processor time, s", "bytes, MB"}}
	for _, name := range names {
		rows = append(rows, row(name, costs[name]))
	}
	return table(append(rows, row("others", others), row("all", all)))
}

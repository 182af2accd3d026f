// Command sentences lists the sentences of documents that are longer than a reader follows at once.
// It never fails: a sentence may have a reason to be long. Code, pictures and headings are no
// sentences; a cell of a table, and a point of a list, ends one.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
)

var (
	blocks  = regexp.MustCompile("(?ms)^```.*?^```$|^#.*?$|^<.*?>$|^\\|[-|: ]+\\|$")
	links   = regexp.MustCompile(`\]\([^)]*\)`)
	code    = regexp.MustCompile("`[^`\n]+`")
	starts  = regexp.MustCompile(`(?m)^ *(?:[-*]|\d+\.) |\n *\n|\|`)
	ends    = regexp.MustCompile(`([.!?][)"*]*)\s+([("*\[]*[\p{Lu}\d])`)
	letters = regexp.MustCompile(`[\pL\d]`)
)

func main() {
	over := flag.Int("over", 35, "the most words of a sentence that is not listed")
	flag.Parse()
	for _, page := range flag.Args() {
		text, err := os.ReadFile(page)
		if err != nil {
			fmt.Println(err)
		}
		plain := code.ReplaceAllString(links.ReplaceAllString(blocks.ReplaceAllString(string(text), "\n\n"), ""), "Code")
		for sentence := range strings.SplitSeq(ends.ReplaceAllString(starts.ReplaceAllString(plain, "\x00"), "$1\x00$2"), "\x00") {
			if words := strings.Fields(sentence); letters.MatchString(sentence) && len(words) > *over {
				fmt.Printf("%s: %d words: %s\n", page, len(words), strings.Join(words, " "))
			}
		}
	}
}

package config_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"sendcode/internal/run/config/document"
)

type shop struct {
	Title string        `yaml:"title" required:"yes" check:"word"`
	Open  time.Duration `yaml:"open" default:"8h" range:"1h 24h"`
	Doors []door        `yaml:"doors" unique:"name"`
}

type door struct {
	Name string `yaml:"name" oneof:"front back"`
}

// Check implements document.checker.
func (s *shop) Check(p *document.Mapping) {
	if len(s.Doors) == 0 && p.Valid() {
		p.AddMistake("doors", "a shop has a door")
	}
}

func word(text string) string {
	if strings.Contains(text, " ") {
		return "is not one word"
	}
	return ""
}

// Every mistake is told, with its line; what is right is printed as it would be read.
func Example() {
	for _, file := range []string{
		"title: Corner\ndoors: [{name: front}]\n",
		"titel: Corner\ntitle: Corner Store\nopen: 2d\ndoors:\n  - name: side\n",
		"title: Corner\n",
	} {
		d := &document.Decoder{Name: "shop.yaml", Errs: &document.Errors{},
			Checks: map[string]func(string) string{"word": word}}
		s := document.Defaults[shop]()
		d.DecodeStruct(d.Parse([]byte(file)), "", reflect.ValueOf(&s).Elem())
		if err := d.Errs.OrNil(); err != nil {
			fmt.Println(err)
			continue
		}
		_ = yaml.NewEncoder(os.Stdout).Encode(document.Encoder{}.Encode(reflect.ValueOf(&s).Elem()))
	}
	// Output:
	// title: Corner
	// open: 8h
	// doors:
	//     - {name: front}
	// the configuration has 4 mistakes:
	//   - shop.yaml:1: titel: there is no such key, did you mean title?
	//   - shop.yaml:2: title: is not one word
	//   - shop.yaml:3: open: days and weeks are written in hours: 24h, 168h
	//   - shop.yaml:5: doors[0].name: must be front or back
	// the configuration has a mistake:
	//   - shop.yaml:1: a shop has a door
}

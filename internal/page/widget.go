package page

import (
	"encoding/json"
	"reflect"
	"sync"

	"github.com/labstack/echo/v4"

	"sendcode/internal/recipient"
	"sendcode/web"
)

// RegisterWidget adds what other sites load: <send-code>, a card of their own pages that asks the API with a public key.
// RegisterStatic must be called too.
func RegisterWidget(e *echo.Echo) {
	e.GET("/widget.js", echo.WrapHandler(assets().Widget()))
}

// assets are the files of the pages and the widget, which says the same words as the page. They are made once, as they are
// the same for every page of this program.
var assets = sync.OnceValue(func() *web.Assets {
	return web.NewAssets(map[string][]byte{"words.js": words(), "phones.js": phones()})
})

// words is a module with the catalogues. What is other on phones is beside each.
func words() []byte {
	var out []byte
	for i, c := range catalogues() {
		out = export(out, []string{"en", "zh"}[i], struct {
			*cardTexts
			OnPhones map[string]any
		}{&c.mails, given(c.otherwise)})
	}
	return out
}

// given are the words of a catalogue that is not whole.
func given(t cardTexts) map[string]any {
	out := map[string]any{}
	v := reflect.ValueOf(t)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			out[v.Type().Field(i).Name] = v.Field(i).Interface()
		}
	}
	return out
}

// phones is a module with how phone numbers are written: by country its code, what is dialled before a number there and an
// example; by code the main country and how digits are grouped, as recipient.Grouping has it.
func phones() []byte {
	plans, shared := recipient.Plans()
	countries, codes := map[string][3]string{}, map[string][2]any{}
	for country, p := range plans {
		countries[country] = [3]string{p.Code, p.Trunk, p.Example}
	}
	for code, s := range shared {
		groupings := [][4]string{}
		for _, g := range s.Groupings {
			groupings = append(groupings, [4]string{g.Begins, g.National, g.Short, g.Abroad})
		}
		codes[code] = [2]any{s.Main, groupings}
	}
	return export(export(nil, "countries", countries), "codes", codes)
}

// export adds a value to a module.
func export(module []byte, name string, value any) []byte {
	text, _ := json.Marshal(value) // of strings it cannot fail
	return append(append(append(module, "export const "+name+" = "...), text...), ";\n"...)
}

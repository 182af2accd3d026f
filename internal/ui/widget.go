package ui

import (
	"encoding/json"

	"github.com/labstack/echo/v4"

	"sendcode/web"
)

// RegisterWidget adds what other sites load: <send-code>, a card of their own pages that asks the API with a public key.
// RegisterStatic must be called too.
func RegisterWidget(e *echo.Echo) {
	e.GET("/widget.js", echo.WrapHandler(assets().Widget()))
}

// assets are the files of the pages and the widget, which says the same words as the page.
func assets() *web.Assets {
	return web.NewAssets(map[string][]byte{"words.js": words()})
}

// words is a module with the catalogues.
func words() []byte {
	var out []byte
	for _, c := range []struct {
		name string
		*texts
	}{{"en", &english}, {"zh", &chinese}} {
		text, _ := json.Marshal(c.texts) // of strings it cannot fail
		out = append(out, "export const "+c.name+" = "...)
		out = append(append(out, text...), ";\n"...)
	}
	return out
}

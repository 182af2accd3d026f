package generic

import "context"

func (g *carrier) Address() string { return placeholder.ReplaceAllString(g.URL, "x") }

func (g *carrier) Probe(context.Context) (string, error) {
	return "; nothing harmless can be asked of it", nil
}

package message

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
)

// Brand has the logo, home page and colours of an app. The zero value is for an app without a
// brand. NewBrand computes the colours once for all messages and pages.
type Brand struct {
	Logo        string  // https URL of an image
	Home        string  // https URL
	Light, Dark Palette // for pages and mails in light and in dark colours; empty without an accent
}

// NewBrand returns a brand with a logo, an accent colour and a home page. Each parameter may be
// empty. NewBrand ignores an accent that does not have the form #rrggbb.
func NewBrand(logo, accent, home string) Brand {
	b := Brand{Logo: logo, Home: home}
	if chosen, err := parseColour(accent); err == nil {
		b.Light, b.Dark = chosen.paletteOn(lightScheme), chosen.paletteOn(darkScheme)
	}
	return b
}

// Palette has the colours of one scheme, light or dark, as #rrggbb.
type Palette struct {
	Accent string // links, buttons and the code
	On     string // text on Accent
	Wash   string // a surface with a hint of Accent
}

// scheme has the colours of a light or dark scheme, as in web/static/tokens.css and
// templates/mail/layout.html. `paper` and `card` are the colours of backgrounds, and `on` is the
// colour of text on the accent. An accent is mixed with `towards` until it is legible. Its
// lightness in OKLab is at least `lightness`.
type scheme struct {
	paper, card, on, towards colour
	lightness                float64
}

var (
	lightScheme = scheme{
		paper: colourFromRGB(0xf6f5f2), card: colourFromRGB(0xffffff), on: colourFromRGB(0xffffff),
		towards: colourFromRGB(0x000000),
	}
	darkScheme = scheme{
		paper: colourFromRGB(0x131417), card: colourFromRGB(0x1b1d21), on: colourFromRGB(0x131417),
		towards: colourFromRGB(0xffffff), lightness: 0.74,
	}
)

// minContrast is the least contrast of text (WCAG 2.2, criterion 1.4.3).
const minContrast = 4.5

// paletteOn returns the palette of an accent for a scheme. It makes the accent darker or lighter
// until text in this colour is legible on each background of the scheme. On a dark background, the
// accent is at least as light as accented text in tokens.css, so that page and mail have the same
// colours.
func (c colour) paletteOn(s scheme) Palette {
	c = c.withLightness(s.lightness)
	const steps, washed = 50, 0.1
	for step := range steps + 1 {
		shade := c.mix(s.towards, float64(step)/steps)
		wash := s.card.mix(shade, washed)
		if step == steps || contrast(shade, s.paper) >= minContrast && contrast(shade, s.card) >= minContrast &&
			contrast(shade, wash) >= minContrast &&
			contrast(s.on, shade) >= minContrast {
			return Palette{Accent: shade.String(), On: s.on.String(), Wash: wash.String()}
		}
	}
	return Palette{}
}

// StyleSheet returns a style sheet that sets the page's colours to the brand's; "" without an
// accent.
func (b Brand) StyleSheet() string {
	l, d := b.Light, b.Dark
	if l == (Palette{}) {
		return ""
	}
	return fmt.Sprintf(
		":root{--accent:light-dark(%s,%s);--on-accent:light-dark(%s,%s);--accent-wash:light-dark(%s,%s)}",
		l.Accent, d.Accent, l.On, d.On, l.Wash, d.Wash)
}

// StyleVersion returns a hash of the brand's style sheet, for the query of its URL.
func (b Brand) StyleVersion() string {
	sum := sha256.Sum256([]byte(b.StyleSheet()))
	return hex.EncodeToString(sum[:6])
}

// AccentProblem says what is wrong with an accent, for the errors of the configuration. It returns
// "" if the accent has the form #rrggbb.
func AccentProblem(text string) string {
	if _, err := parseColour(text); err != nil {
		return err.Error()
	}
	return ""
}

// colour is an sRGB colour: red, green and blue, each from 0 to 1.
type colour [3]float64

func parseColour(text string) (c colour, err error) {
	n, err := strconv.ParseUint(text[min(len(text), 1):], 16, 32)
	if len(text) != 7 || text[0] != '#' || err != nil {
		return c, fmt.Errorf("must be a colour such as \"#1f5fd1\", in quotes")
	}
	return colourFromRGB(n), nil
}

func colourFromRGB(n uint64) (c colour) {
	for i := range c {
		c[i] = float64(n>>(16-8*i)&0xff) / 255
	}
	return c
}

func (c colour) String() string {
	at := func(i int) int { return int(math.Round(c[i] * 255)) }
	return fmt.Sprintf("#%02x%02x%02x", at(0), at(1), at(2))
}

func (c colour) mix(other colour, share float64) colour {
	for i := range c {
		c[i] += (other[i] - c[i]) * share
	}
	return c
}

// luminance returns the colour's relative luminance, from 0 to 1 (WCAG 2.2).
func (c colour) luminance() float64 {
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

// linear returns a component of an sRGB colour without its gamma.
func linear(v float64) float64 {
	if v <= 0.04045 {
		return v / 12.92
	}
	return math.Pow((v+0.055)/1.055, 2.4)
}

// withLightness returns a colour with the same hue and chroma whose OKLab lightness is at least the
// parameter least (bottosson.github.io/posts/oklab). Values outside the sRGB gamut are clipped.
func (c colour) withLightness(least float64) colour {
	r, g, b := linear(c[0]), linear(c[1]), linear(c[2])
	long, medium, short := math.Cbrt(0.4122214708*r+0.5363325363*g+0.0514459929*b),
		math.Cbrt(0.2119034982*r+0.6806995451*g+0.1073969566*b), math.Cbrt(0.0883024619*r+0.2817188376*g+0.6299787005*b)
	more := least - (0.2104542553*long + 0.7936177850*medium - 0.0040720468*short)
	if more <= 0 {
		return c
	}
	long, medium, short = math.Pow(long+more, 3), math.Pow(medium+more, 3), math.Pow(short+more, 3)
	for i, v := range [3]float64{
		4.0767416621*long - 3.3077115913*medium + 0.2309699292*short,
		-1.2684380046*long + 2.6097574011*medium - 0.3413193965*short,
		-0.0041960863*long - 0.7034186147*medium + 1.7076147010*short,
	} {
		c[i] = 12.92 * max(v, 0)
		if v > 0.0031308 {
			c[i] = min(1.055*math.Pow(v, 1/2.4)-0.055, 1)
		}
	}
	return c
}

func contrast(a, b colour) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

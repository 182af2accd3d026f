package browsertest_test

import (
	"bytes"
	"fmt"
	"image/color"
	"image/png"
	"testing"

	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
)

// A picture has the whole page, from edge to edge, in each direction of writing, also after
// pictures of other widths in the same tab. Afterwards the window is as high as before.
func TestPictureHasTheWholePage(t *testing.T) {
	tab := browsertest.Chromium(t).Open(t, browsertest.Look{Width: 600, Height: 800})
	red := color.RGBA{R: 255, A: 255}
	for _, width := range []int{320, 600, 320} {
		for _, dir := range []string{"ltr", "rtl"} {
			for _, height := range []int{640, 900} {
				name := fmt.Sprintf("%s %d x %d", dir, width, height)
				servertest.OK(t, tab.Show(browsertest.Look{Width: int64(width), Height: 640}))
				p := browsertest.NewPage(t, tab, fmt.Sprintf(`data:text/html,<!doctype html><html dir="%s">`+
					`<meta name="viewport" content="width=device-width, initial-scale=1"><body style="margin:0">`+
					`<table width="100%%25" cellspacing="0" cellpadding="0" style="background:rgb(255,0,0)"><tr><td style="height:%dpx">`, dir, height), "")
				raw, err := p.Picture()
				servertest.OK(t, err)
				picture, err := png.Decode(bytes.NewReader(raw))
				servertest.OK(t, err)
				servertest.Same(t, name+": the size", picture.Bounds().Size().String(), fmt.Sprintf("(%d,%d)", width, height))
				for _, at := range [][2]int{{0, 0}, {width - 1, 0}, {0, height - 1}, {width - 1, height - 1}, {width / 2, height / 2}} {
					if got := color.RGBAModel.Convert(picture.At(at[0], at[1])); got != red {
						t.Errorf("%s: at %v: %v", name, at, got)
					}
				}
				servertest.Same(t, name+": the window's height", browsertest.Value[int](p, "innerHeight"), 640)
			}
		}
	}
}

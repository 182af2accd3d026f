package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/chromedp/chromedp"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/store"
)

// What the moving picture of the README may be at most.
const (
	mostBytes = 400_000
	mostTime  = 8 * time.Second
)

// beat is one picture of the story: what happens before it, what is written below, and for how long
// it stands.
type beat struct {
	caption string // "": as before
	stands  time.Duration
	steps   []chromedp.Action[chromedp.Void]
}

// drawStory draws the moving picture of the README: a person asks for a code, asks again too early,
// and enters the code.
func drawStory(browser context.Context) error {
	ctx, stop := context.WithTimeout(browser, 100*time.Second)
	defer stop()
	world := pagetest.NewWorld() // its clock stands still, however slow this machine is
	defer world.Close()
	world.Codes.Immediately = store.Sent
	tab, end := browsertest.ChromiumTab(ctx)
	defer end()
	const to, moment = pagetest.Address, 100 * time.Millisecond
	type steps = []chromedp.Action[chromedp.Void]
	look := browsertest.Look{Width: 480, Height: 560, Lang: "en", Zone: "Etc/GMT-1"}
	keys := func(field, text string) steps { return steps{focus(field), chromedp.KeyEvent(text)} }
	click := func(selector string) chromedp.Action[chromedp.Void] {
		return until(in(selector) + ` && (` + in(selector) + `.click(), true)`)
	}
	card := func(kind string) chromedp.Action[chromedp.Void] {
		return until(in("#card[data-kind=" + kind + "]"))
	}
	s := story{tab: tab}
	err := s.play([]beat{
		{
			"Ana asks for a code", 6 * moment,
			steps{look.Apply(), chromedp.Navigate(world.URL), card("ask")},
		},
		{"", 2 * moment, keys("#to", to[:4])},
		{"", 2 * moment, keys("#to", to[4:11])},
		{"", 5 * moment, keys("#to", to[11:])},
		{
			"It is mailed; the next one in a minute", 8 * moment,
			steps{click("#send"), card("code")},
		},
		{
			"She asks again at once …", 7 * moment,
			append(steps{click(".help .change"), card("ask"), until(`(e => e && (e.value = "", true))(` + in("#to") + `)`)},
				keys("#to", to)...),
		},
		{
			"… too early: no second mail, and it costs nothing", 14 * moment,
			steps{click("#send"), card("code")},
		},
		{"She types the code", 3 * moment, keys("#code", pagetest.Code[:2])},
		{"", 3 * moment, keys("#code", pagetest.Code[2:4])},
		{
			"Welcome: the address is hers", 26 * moment,
			append(keys("#code", pagetest.Code[4:]), card("approved")),
		},
	})
	if err != nil {
		return err
	}
	return s.write(filepath.Join(pictures, "story.gif"))
}

// story is a moving picture under way.
type story struct {
	tab     context.Context
	caption string
	shots   []image.Image
	stands  []time.Duration
}

// play takes the picture of each beat.
func (s *story) play(beats []beat) error {
	for _, b := range beats {
		if err := chromedp.Do(s.tab, b.steps...); err != nil {
			return fmt.Errorf("beat %d: %w", len(s.shots), err)
		}
		if b.caption != "" {
			s.caption = b.caption
		}
		if _, err := chromedp.Run(s.tab, chromedp.Evaluate[bool](fmt.Sprintf(writeCaption, s.caption))); err != nil {
			return err
		}
		shot, err := capture(s.tab)
		if err != nil {
			return err
		}
		s.shots, s.stands = append(s.shots, shot), append(s.stands, b.stands)
	}
	return nil
}

// writeCaption writes a text at the lower edge, by a sheet that the page's policy does not see. A
// click goes through the text to what is below.
const writeCaption = `(() => {
	const sheet = new CSSStyleSheet();
	sheet.replaceSync('body::after { content: ' + JSON.stringify(%q) + '; position: fixed; inset: auto 0 0 0; padding: 12px; text-align: center; pointer-events: none;' +
		'font: 600 16px/1.4 system-ui, sans-serif; color: #fff; background: #17201f }');
	document.adoptedStyleSheets = [sheet];
	return true;
})()`

// write writes the pictures as a GIF. Of each but the first it has what differs from the one
// before.
func (s *story) write(file string) error {
	var all gif.GIF
	colours, took := palette(s.shots), time.Duration(0)
	var before *image.Paletted
	for i, shot := range s.shots {
		now := image.NewPaletted(shot.Bounds(), colours)
		draw.Draw(now, now.Rect, shot, image.Point{}, draw.Src)
		part := now
		if before != nil {
			part = now.SubImage(changed(before, now)).(*image.Paletted)
		}
		all.Image, all.Delay = append(all.Image, part), append(all.Delay, int(s.stands[i]/(10*time.Millisecond)))
		all.Disposal = append(all.Disposal, gif.DisposalNone)
		before, took = now, took+s.stands[i]
	}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, &all); err != nil {
		return err
	}
	if b.Len() > mostBytes || took > mostTime {
		return fmt.Errorf("%s has %d bytes and takes %v", file, b.Len(), took)
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// palette returns the colours that most pixels have, as many as a GIF can.
func palette(shots []image.Image) color.Palette {
	count := map[color.Color]int{}
	for _, shot := range shots {
		for y := range shot.Bounds().Dy() {
			for x := range shot.Bounds().Dx() {
				count[shot.At(x, y)]++
			}
		}
	}
	most := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	return most[:min(len(most), 256)]
}

// changed returns the rectangle in which two pictures differ; one pixel where they do not.
func changed(a, b *image.Paletted) (where image.Rectangle) {
	for y := range a.Rect.Dy() {
		for x := range a.Rect.Dx() {
			if a.ColorIndexAt(x, y) != b.ColorIndexAt(x, y) {
				where = where.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	if where.Empty() {
		return image.Rect(0, 0, 1, 1)
	}
	return where
}

//go:build nightly

package bench

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// Strangers flood suppressed addresses beside honest sends. The test prints what that does to the
// honest sends' answers: p50 with the flood, divided by p50 without, in turns. It fails if the
// flood was not one of suppressed addresses.
func TestBenchSuppressedFlood(t *testing.T) {
	const publicKey, admin, origin = "pk_0123456789abcdefghijABCDEFGHIJ", "0123456789abcdefghijABCDEFGHIJ", "https://shop.example"
	b := openRig(t)
	root, err := filepath.Abs("../..")
	b.must(err)
	b.run(root, "go", "build", "-buildvcs=false", "-o", b.dir, "./cmd/sendcode")
	b.startService(ours, filepath.Join(b.dir, "sendcode"), "SENDCODE_PUBLIC_KEY="+publicKey, "SENDCODE_ORIGINS="+origin,
		"SENDCODE_TRUSTED_PROXIES=127.0.0.1",
		fmt.Sprintf("SENDCODE_CONFIG_YAML=admin: {tokens: [{id: bench, role: owner, sha256: %x}]}", sha256.Sum256([]byte(admin))))
	c := b.contenders[0]
	suppressed := make([]*opened, 1000)
	x := &caller{base: c.base}
	defer x.close()
	for i := range suppressed {
		suppressed[i] = b.recipient()
		b.must(x.do(request{
			http.MethodPost, "/v1/admin/suppressions", "Authorization: Bearer " + admin + "\r\nContent-Type: application/json\r\n",
			`{"channel":"email","to":"` + suppressed[i].to() + `","reason":"a measurement","for":86400}`, http.StatusCreated, "",
		}))
	}
	began := time.Now()
	capacity := float64(len(b.closed(c, 64, send, b.supply(c, send)))) / time.Since(began).Seconds()
	honest := func() float64 {
		var waits []float64
		for _, s := range b.open(c, capacity/8, b.length) {
			waits = append(waits, float64(s.answered.Sub(s.asked))/float64(time.Millisecond))
		}
		return quantile(waits, .5)
	}
	flooded := func() (p50 float64) {
		began := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		answers, failures := make([]int, 16), make([]error, 16)
		for i := range answers {
			all.Go(func() {
				x := &caller{base: c.base}
				defer x.close()
				every := time.NewTicker(time.Duration(float64(len(answers)) / (capacity / 4) * float64(time.Second)))
				defer every.Stop()
				for n := i; ctx.Err() == nil && failures[i] == nil; n += len(answers) {
					<-every.C
					failures[i] = x.do(request{
						http.MethodPost, "/v1/verifications",
						fmt.Sprintf("Authorization: Bearer %s\r\nOrigin: %s\r\nX-Forwarded-For: 10.%d.%d.1\r\nContent-Type: application/json\r\n",
							publicKey, origin, n>>8&255, n&255),
						`{"channel":"email","to":"` + suppressed[n%len(suppressed)].to() + `","locale":"en"}`, http.StatusAccepted, "",
					})
					answers[i]++
				}
			})
		}
		p50 = honest()
		stop()
		all.Wait()
		sum := 0
		for i, n := range answers {
			b.must(failures[i])
			sum += n
		}
		t.Logf("the flood: %.0f requests a second", float64(sum)/time.Since(began).Seconds())
		return p50
	}
	var ratios []float64
	for range max(3, b.rounds) {
		b.spentAtRest(c)
		alone := honest()
		with := flooded()
		b.spentAtRest(c)
		ratios = append(ratios, with/alone)
		t.Logf("p50 alone %.2f ms, beside the flood %.2f ms, alone again ÷ alone %.2f", alone, with, honest()/alone)
	}
	slices.Sort(ratios)
	t.Logf("%.0f honest sends a second: p50 beside the flood ÷ p50 alone: %.2f", capacity/8, ratios)
}

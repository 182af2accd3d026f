//go:build nightly

// Only `make nightly` and `make prove` run this test, since it takes minutes and changes machine
// code.

package parts

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	history "sendcode/internal/kit/historytest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// aheadBy is an environment variable: the seconds by which the clock of a test's process is ahead.
// A preloaded library can't set the clock, since Go asks the kernel's vDSO for the time.
const aheadBy = "SENDCODE_TEST_AHEAD"

// The clock is set before a test reads the time.
var _ = clockAhead(os.Getenv(aheadBy))

// clockAhead sets the clock of this process ahead. It returns the seconds, or 0 if none are given.
func clockAhead(by string) (seconds uint64) {
	if by == "" {
		return 0
	}
	seconds, err := strconv.ParseUint(by, 10, 32)
	if err == nil {
		err = setAhead(seconds)
	}
	if err != nil {
		panic(err)
	}
	return seconds
}

// setAhead changes the vDSO's clock_gettime so that it asks the kernel and adds seconds to the wall
// clock. The monotonic clock is unchanged.
func setAhead(seconds uint64) error {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	before, _, _ := strings.Cut(string(maps), "[vdso]")
	var from, to uintptr
	if _, err := fmt.Sscanf(before[strings.LastIndex(before, "\n")+1:], "%x-%x", &from, &to); err != nil {
		return err
	}
	code := unsafe.Slice(*(**byte)(unsafe.Pointer(&from)), to-from)
	if err := syscall.Mprotect(code, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC); err != nil {
		return err
	}
	file, err := elf.NewFile(bytes.NewReader(bytes.Clone(code)))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "__vdso_clock_gettime" })
	if err != nil || i < 0 {
		return fmt.Errorf("the vDSO has no clock_gettime: %w", err)
	}
	instead := []byte{
		0xB8, syscall.SYS_CLOCK_GETTIME, 0, 0, 0, // mov eax, the system call
		0x0F, 0x05, // syscall
		0x85, 0xFF, // test edi, edi: CLOCK_REALTIME is 0
		0x75, 13, // jne to ret
		0x48, 0xB9, // mov rcx, seconds
	}
	instead = binary.LittleEndian.AppendUint64(instead, seconds)
	instead = append(instead, 0x48, 0x01, 0x0E, 0xC3) // add [rsi], rcx; ret
	copy(code[symbols[i].Value:], instead)
	return nil
}

// In each form, a month ends under load and faults. The clocks of all processes, of Redis and of
// Postgres are ahead of the machine's clock by the same seconds. A rule of the calendar month
// refuses until the month ends. Then it admits as many sends as before, and refuses again. The next
// month begins on a Monday, so a week and a partition of Postgres's sends end, too.
func TestMonthEnds(t *testing.T) {
	const lead = time.Minute // the time from the start of the processes to the end of the month
	defer func(life time.Duration) { servertest.CertificateLife = life }(servertest.CertificateLife)
	servertest.CertificateLife = 2 * 365 * 24 * time.Hour
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			s := f.open(t)
			var clocks []*servertest.Clock
			if s.Postgres != nil {
				clocks = append(clocks, s.Postgres.SetUpClock(s))
			}
			if s.Redis != nil {
				redis, clock := servertest.RedisWithClock(s)
				s.Redis, s.Env["SENDCODE_REDIS_URL"], clocks = redis, redis.URL(), append(clocks, clock)
			}
			p := newProvingRun(s, f.name+", over a month's end")
			now := time.Now().UTC()
			end := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			for end.Weekday() != time.Monday {
				end = end.AddDate(0, 1, 0)
			}
			ahead := end.Sub(now.Add(lead)).Truncate(time.Second)
			for _, clock := range clocks {
				apptest.Must(t, clock.Set(ahead))
			}
			s.Env[aheadBy] = fmt.Sprint(int(ahead.Seconds()))
			month := history.Rule{Name: "month", Limit: 4, Window: 31 * 24 * time.Hour, Until: end.Add(-ahead)}
			p.observed.Ahead, p.observed.Rules = ahead, append(p.observed.Rules, month)
			p.more = fmt.Sprintf("    - {name: month, scope: recipient, limit: %d, per: month}\n", month.Limit)
			p.configure()
			p.start(f.replicas)
			refused := func(before bool) bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return slices.ContainsFunc(p.observed.Requests, func(q history.Request) bool {
					when := before && q.End.Before(month.Until) || !before && q.Begin.After(month.Until)
					return when && q.Status == http.StatusTooManyRequests && strings.Contains(string(q.Body), `"blocked_by":"month"`)
				})
			}
			p.underLoad(func(ctx context.Context) {
				p.fail(ctx, time.Until(month.Until), 0, f.faults)
				for least := *proving / 4; !refused(false) || least > 0; least = 0 {
					p.fail(ctx, least, 0, f.faults)
				}
			})
			if !refused(true) {
				t.Error("the rule of the month refused nothing before its end")
			}
			p.report()
		})
	}
}

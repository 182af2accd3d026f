package quota

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// BenchmarkMemoryOfAMillion tells the memory that a million recipients of the default policy take, by the events of each.
// Names and IDs are as long as those of the service.
func BenchmarkMemoryOfAMillion(b *testing.B) {
	const recipients = 1_000_000
	for _, events := range []int{1, 5, 10} {
		b.Run(fmt.Sprint(events), func(b *testing.B) {
			for b.Loop() {
				before := heap()
				m := NewMemory(time.Now, "process")
				at := time.Now()
				for i := range recipients {
					bucket := Bucket("default", "email", "default", "recipient", fmt.Sprintf("%043d", i))
					for e := range events {
						must(b, m.Record(b.Context(), bucket, 24*time.Hour, []Event{{fmt.Sprintf("%08d%08d", i, e), at}}))
					}
				}
				b.ReportMetric(float64(heap()-before)/recipients, "B/recipient")
				runtime.KeepAlive(m)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

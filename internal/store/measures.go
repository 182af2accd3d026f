package store

import (
	"maps"
	"slices"
	"time"
)

// Measures tell how well codes reached people.
type Measures struct {
	// Opened are the verifications that a first send of the time opened, Approved those of them that were.
	Opened, Approved int
	// Median and P95 are between the row and the outcome, of what was sent; 0 where nothing was.
	Median, P95 time.Duration
}

// Stretch has the measures of one stretch of time.
type Stretch struct {
	At time.Time // its beginning
	Measures
}

// Measure takes in the stretches and the whole's times; the rest of the whole is the stretches' sum.
func (s *Stats) Measure(by map[time.Time]Measures, median, p95 time.Duration) {
	for _, m := range by {
		s.Opened, s.Approved = s.Opened+m.Opened, s.Approved+m.Approved
	}
	s.Median, s.P95 = median, p95
	s.Stretches = Stretches(by)
}

// Stretches are those that have something to tell, in order.
func Stretches(all map[time.Time]Measures) (list []Stretch) {
	for _, at := range slices.SortedFunc(maps.Keys(all), time.Time.Compare) {
		if all[at] != (Measures{}) {
			list = append(list, Stretch{at, all[at]})
		}
	}
	return list
}

// Rank is the place of a part of n in order, counted from 0: the nearest rank.
func Rank(n int, part float64) int { return max(0, int(part*float64(n)+0.999999)-1) }

package message

import "time"

// Minutes returns the remaining life of a code in minutes, rounded down, at least 1. It first adds onTheWay, so that a new code shows its
// full life.
func Minutes(left time.Duration) int { return max(1, int((left+onTheWay)/time.Minute)) }

// onTheWay is the time that a send may take until its message is rendered.
const onTheWay = 2 * time.Second

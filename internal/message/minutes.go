package message

import "time"

// Minutes is the remaining validity in minutes, rounded down, at least 1. The little that a send has spent on its way here does not cost
// a minute.
func Minutes(left time.Duration) int { return max(1, int((left+onTheWay)/time.Minute)) }

// onTheWay is far less than a mail takes, so no message claims a minute too much by it.
const onTheWay = 2 * time.Second

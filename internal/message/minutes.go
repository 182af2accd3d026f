package message

import "time"

// Minutes is the true remaining validity, rounded down, at least 1. A send that starts at once has spent some of its
// life on the way here; that is not worth a minute.
func Minutes(left time.Duration) int { return max(1, int((left+onTheWay)/time.Minute)) }

// onTheWay is far less than a mail takes, so no message claims a minute too much by it.
const onTheWay = 2 * time.Second

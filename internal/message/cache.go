package message

import "sync"

// cache keeps values that are costly to make. It is emptied when it is full.
type cache[K comparable, V any] struct {
	mu   sync.RWMutex
	kept map[K]V
}

func (c *cache[K, V]) get(k K) (V, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.kept[k]
	return v, ok
}

func (c *cache[K, V]) put(k K, v V, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil || len(c.kept) >= most {
		c.kept = map[K]V{}
	}
	c.kept[k] = v
}

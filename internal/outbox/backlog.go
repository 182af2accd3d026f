package outbox

import (
	"bytes"
	"container/heap"
)

// backlog is a priority queue of flights that wait for a worker: first the one that expires first; of those that expire together, the
// oldest. It is a [heap.Interface].
type backlog []*flight

func (b *backlog) add(f *flight) { heap.Push(b, f) }

// next removes and returns the first flight. The backlog must not be empty.
func (b *backlog) next() *flight { return heap.Pop(b).(*flight) }

// Len implements heap.Interface.
func (b backlog) Len() int { return len(b) }

// Less implements heap.Interface.
func (b backlog) Less(i, j int) bool {
	one, other := &b[i].work, &b[j].work
	if by := one.Verification.ExpiresAt.Compare(other.Verification.ExpiresAt); by != 0 {
		return by < 0
	}
	return bytes.Compare(one.Send.ID[:], other.Send.ID[:]) < 0
}

// Swap implements heap.Interface.
func (b backlog) Swap(i, j int) { b[i], b[j] = b[j], b[i] }

// Push implements heap.Interface.
func (b *backlog) Push(f any) { *b = append(*b, f.(*flight)) }

// Pop implements heap.Interface.
func (b *backlog) Pop() any {
	last := len(*b) - 1
	f := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return f
}

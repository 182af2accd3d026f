package rig

import (
	"time"

	"sendcode/quota"
)

// lose takes the limiter away; find brings one back that has forgotten everything.
func (r *Rig) Lose() { r.Limiter.Set(NoLimiter{quota.NewMemory(time.Now, "process")}) }

func (r *Rig) Find() *quota.Memory {
	m := quota.NewMemory(time.Now, "process")
	r.Limiter.Set(m)
	return m
}

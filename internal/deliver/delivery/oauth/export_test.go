package oauth

// LifeIn is lifeIn, for tests.
func LifeIn(field []byte) int64 { return lifeIn(field) }

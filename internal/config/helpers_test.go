package config

import "crypto/sha256"

func sumOf(s string) [32]byte { return sha256.Sum256([]byte(s)) }

package config

import _ "embed"

// Example is a file with every setting, what it means, and what holds by default.
//
//go:embed example.yaml
var Example string

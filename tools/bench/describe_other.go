//go:build !linux

package main

func fileSystem(string) (name string, memory bool) { return "an unknown file system", false }

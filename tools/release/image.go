package main

import (
	"errors"
	"strings"
)

// imageFile makes the Dockerfile of an archive from the tree's Dockerfile. The archive's Dockerfile
// does not compile the program, but copies the program that is beside it.
func imageFile(dockerfile, version string) (string, error) {
	base, rest, isBuild := strings.Cut(dockerfile, " AS build\n")
	_, last, isLast := strings.Cut(rest, "\nFROM scratch\n")
	const compiled = "COPY --from=build /sendcode /sendcode\n"
	if !isBuild || !isLast || !strings.Contains(last, compiled) || !strings.Contains(last, "ARG VERSION=\n") {
		return "", errors.New("the Dockerfile has other stages")
	}
	last = strings.NewReplacer(compiled, "COPY sendcode /sendcode\n", "ARG VERSION=\n", "ARG VERSION="+version+"\n").Replace(last)
	return base +
		" AS build\n\n# Only the certificates, against which mail servers, Redis and Postgres are checked, come from that image.\nFROM scratch\n" + last, nil
}

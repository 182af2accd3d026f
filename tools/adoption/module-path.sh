#!/usr/bin/env bash
# Changes the module path of this tree, as docs/decisions/0011-release.md tells the owner to do:
#   tools/adoption/module-path.sh example.com/owner/sendcode
# It changes the files that git knows, and runs in the root of the repository.
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 example.com/owner/sendcode" >&2; exit 2; }
old=$(go mod edit -json | sed -nE 's/^\t\t"Path": "(.*)"$/\1/p' | head -1)
export OLD=$old NEW=$1
# Paths of packages, in imports, flags of the linker and documents; the import of the root package; the requirement and the
# replacement of the modules below tools; the prefix that the tests of this repository's rules cut off.
git ls-files -z -- '*.go' '*go.mod' Makefile Dockerfile '*.md' '*.sh' | xargs -0 perl -pi -e '
  s{(?<![\w./-])\Q$ENV{OLD}\E/(?=(cmd|docs|internal|migrations|quota|templates|tools|web)\b)}{$ENV{NEW}/}g;
  s{^(\s*(?:import )?(?:\w+ )?)"\Q$ENV{OLD}\E"$}{$1"$ENV{NEW}"} if $ARGV =~ /\.go$/ && !/=/;
  s{^(module |replace |\s+)\Q$ENV{OLD}\E( v0\.0\.0| =>|$)}{$1$ENV{NEW}$2} if $ARGV =~ /go\.mod$/;
  s{^(const module = )"\Q$ENV{OLD}\E/"$}{$1"$ENV{NEW}/"} if $ARGV =~ /\.go$/;
  s{-(require|replace)=\Q$ENV{OLD}\E([@=])}{-$1=$ENV{NEW}$2}g if $ARGV =~ /\.md$/'
gofmt -w $(git diff --name-only --diff-filter=d -- '*.go') # the order of imports

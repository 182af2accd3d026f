// Command release builds the archives of a release, one for each system. An archive has the
// program, the files that belong beside it, and the licences of its modules. The command also makes
// a bill of materials for each archive, and checksums. The same tree and Go give the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// systems are the systems for which archives are made, as GOOS/GOARCH.
var systems = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}

// commonFiles are the files of the tree that each archive has, by their names in the archive. The
// folders docs and deploy are copied in addition; see readCommonFiles.
var commonFiles = map[string]string{
	"README.md":    "tools/release/README.md",
	"CHANGELOG.md": "CHANGELOG.md",
	"UPGRADING.md": "UPGRADING.md",
	"SECURITY.md":  "SECURITY.md",
	"compose.yaml": "compose.yaml", "compose.postgres.yaml": "compose.postgres.yaml",
	"sendcode.yaml": "internal/run/config/example.yaml",
}

// archiveNames maps a file of the tree, by its path there, to its name in an archive. relink
// changes the links to it.
var archiveNames = map[string]string{"internal/run/config/example.yaml": "sendcode.yaml"}

// release is one run: the tree, the folder for the archives, the program's version, the
// modification time of every file, and the flags and environment of go build.
type release struct {
	tree, out, version string
	modTime            time.Time
	flags, environ     []string
}

// A program that is built with these flags and variables contains no path, no time and no state of
// the checkout. It needs no C library.
var (
	buildFlags   = []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid= -X sendcode/internal/run/app.version="}
	buildEnviron = []string{"CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS="}
)

func main() {
	r := release{tree: ".", flags: buildFlags, environ: buildEnviron}
	flag.StringVar(&r.out, "out", "dist", "folder for the archives; it must be empty or absent")
	flag.StringVar(&r.version, "version", "", "what the program calls itself")
	systemList := flag.String("systems", strings.Join(systems, ","), "what archives are made for, GOOS/GOARCH by commas")
	unixTime := flag.Int64("time", 0, "seconds since 1970 that every file gets: the commit's")
	flag.Parse()
	r.modTime = time.Unix(*unixTime, 0).UTC()
	if err := r.make(strings.Split(*systemList, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// make builds the archives for the systems, each written as GOOS/GOARCH. An archive has a name such
// as sendcode_0.1.0_linux_amd64.tar.gz.
func (r release) make(systems []string) error {
	if r.version == "" {
		return errors.New("-version is missing")
	}
	if left, err := os.ReadDir(r.out); err == nil && len(left) > 0 {
		return fmt.Errorf("%s is not empty", r.out)
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	built, err := os.MkdirTemp("", "sendcode-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(built) }()
	common, err := r.readCommonFiles()
	if err != nil {
		return err
	}
	if err := relink(common); err != nil {
		return err
	}
	var sums []string // "<hex>  <file>"
	for _, system := range systems {
		goos, arch, _ := strings.Cut(system, "/")
		name := fmt.Sprintf("sendcode_%s_%s_%s", r.version, goos, arch)
		files, err := r.files(built, goos, arch, common)
		if err != nil {
			return fmt.Errorf("%s: %w", system, err)
		}
		archive, err := pack(name, files, r.modTime)
		if err != nil {
			return err
		}
		for file, content := range map[string][]byte{name + ".tar.gz": archive, name + ".cdx.json": files["sbom.cdx.json"]} {
			if err := os.WriteFile(filepath.Join(r.out, file), content, 0o644); err != nil {
				return err
			}
			sum := sha256.Sum256(content)
			sums = append(sums, hex.EncodeToString(sum[:])+"  "+file+"\n")
		}
	}
	slices.SortFunc(sums, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(strings.Join(sums, "")), 0o644)
}

// readCommonFiles returns the files of the tree that every archive has: those of commonFiles, and
// the folders docs and deploy without their Go files.
func (r release) readCommonFiles() (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, file := range commonFiles {
		content, err := os.ReadFile(filepath.Join(r.tree, file))
		if err != nil {
			return nil, err
		}
		files[name] = content
	}
	for _, folder := range []string{"docs", "deploy"} {
		err := fs.WalkDir(os.DirFS(r.tree), folder, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || path.Ext(name) == ".go" {
				return err
			}
			files[name], err = os.ReadFile(filepath.Join(r.tree, name))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (r release) build(folder, goos, arch string) (file string, err error) {
	file = filepath.Join(folder, goos+"_"+arch)
	args := append([]string{"build", "-o", file}, r.flags...)
	args[len(args)-1] += r.version
	cmd := exec.Command("go", append(args, "./cmd/sendcode")...)
	cmd.Dir, cmd.Stderr = r.tree, os.Stderr
	cmd.Env = append(append(os.Environ(), r.environ...), "GOOS="+goos, "GOARCH="+arch)
	return file, cmd.Run()
}

// files returns the contents of a system's archive: common, the program, its modules' licences, its
// bill of materials and, for Linux, a Dockerfile.
func (r release) files(built, goos, arch string, common map[string][]byte) (map[string][]byte, error) {
	binary, err := r.build(built, goos, arch)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	files := maps.Clone(common)
	if goos == "linux" {
		dockerfile, err := os.ReadFile(filepath.Join(r.tree, "Dockerfile"))
		if err != nil {
			return nil, err
		}
		image, err := imageFile(string(dockerfile), r.version)
		if err != nil {
			return nil, err
		}
		files["Dockerfile"], files[".dockerignore"] = []byte(image), []byte("*\n!sendcode\n")
	}
	if files["sendcode"], err = os.ReadFile(binary); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(files["sendcode"])
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: "sendcode",
		Type:   cyclonedx.ComponentTypeApplication, Name: "sendcode", Version: r.version,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}}
	bom.Components = &[]cyclonedx.Component{}
	add := func(name, version, folder string, terms map[string][]byte) error {
		licenses, err := identifyLicences(terms)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for file, text := range terms {
			files[path.Join("licences", folder, file)] = text
		}
		*bom.Components = append(*bom.Components, cyclonedx.Component{
			BOMRef: name, Type: cyclonedx.ComponentTypeLibrary, Name: name,
			Version: version, Licenses: licenses, PackageURL: "pkg:golang/" + name + "@" + strings.TrimPrefix(version, "go"),
		})
		return nil
	}
	root, err := exec.Command("go", "env", "GOROOT").Output() // with -trimpath, runtime.GOROOT returns ""
	if err != nil {
		return nil, err
	}
	terms, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if err != nil {
		return nil, err
	}
	if err := add("std", info.GoVersion, "go", map[string][]byte{"LICENSE": terms}); err != nil {
		return nil, err
	}
	for _, module := range info.Deps {
		found, err := r.licenceFiles(module.Path + "@" + module.Version)
		if err != nil {
			return nil, err
		}
		if err := add(module.Path, module.Version, module.Path, found); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return nil, err
	}
	files["sbom.cdx.json"] = b.Bytes()
	return files, nil
}

// pack returns the files in one folder as tar.gz, sorted by name, with one time and one owner. Only
// the program has mode 0755.
func pack(folder string, files map[string][]byte, modTime time.Time) ([]byte, error) {
	var b bytes.Buffer
	zipped, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	archive := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode := fs.FileMode(0o644)
		if name == "sendcode" {
			mode = 0o755
		}
		header := &tar.Header{
			Name: path.Join(folder, name), Mode: int64(mode), Size: int64(len(files[name])),
			ModTime: modTime, Format: tar.FormatPAX,
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

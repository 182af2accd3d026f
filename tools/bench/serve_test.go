package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"

	"sendcode/internal/app"
	"sendcode/internal/config"
)

// serveCommand makes this program the service itself, by environment alone, as the binary does, until its input ends.
const serveCommand = "serve"

func serve(args []string) (err error) {
	app.TuneGC()
	cfg, err := config.Load(os.Environ(), os.ReadFile)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	a, err := app.New(context.Background(), cfg, logger)
	if err != nil {
		return err
	}
	fmt.Println("http://" + a.Addr())
	if len(args) > 0 && args[0] != "" {
		file, err := os.Create(args[0])
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer func() { pprof.StopCPUProfile(); err = errors.Join(err, file.Close()) }()
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		stop()
	}()
	return a.Serve(ctx)
}

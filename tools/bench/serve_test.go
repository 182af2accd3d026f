package bench

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"

	"sendcode/internal/app"
	"sendcode/internal/config"
)

// serveCommand makes this program the service itself, by environment alone, as the binary does,
// until its input ends.
const serveCommand = "serve"

func serve([]string) error {
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
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		stop()
	}()
	return a.Serve(ctx)
}

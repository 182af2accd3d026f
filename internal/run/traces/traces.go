// Package traces makes OpenTelemetry spans and exports them by OTLP over HTTP, if the standard
// environment variables name an exporter or its endpoint (OpenTelemetry Specification, "Environment
// Variable Specification" and "OTLP Exporter Configuration"). The libraries that record spans add
// data of requests that must not leave this process. redact.go lists what is exported.
package traces

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Traces makes spans. Traces is safe for concurrent use. No caller waits for the exporter, because
// spans wait in a queue of OTEL_BSP_MAX_QUEUE_SIZE spans (default 2048). While the queue is full,
// new spans are dropped.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Open returns the traces that the environment variables request, or nil if they request none. If a
// variable can't be used, Open logs the problem without the variable's value, and either returns
// nil or uses the variable's default. failed gets the errors of exports.
func Open(ctx context.Context, version string, logger *slog.Logger, failed func(error)) *Traces {
	on, problem := exporterConfigured(os.Getenv)
	if problem != "" {
		logger.Info("traces are off: a variable can't be used", "problem", problem)
	}
	if !on {
		return nil
	}
	otel.SetLogger(logr.FromSlogHandler(redactedLog{logger.Handler()}))
	otel.SetErrorHandler(errorHandler(logger, failed))
	out, err := otlptracehttp.New(ctx)
	if err != nil {
		logger.Info("traces are off: their exporter can't start", "error", err)
		return nil
	}
	return newTraces(ctx, out, version)
}

// exportError is the error of an export. All other errors of the libraries are about settings.
type exportError struct{ error }

// errorHandler passes the errors of exports to failed, and logs others like the libraries'
// messages: without the part in which a variable's value may be, after a colon, in quotes or in
// brackets.
func errorHandler(logger *slog.Logger, failed func(error)) otel.ErrorHandlerFunc {
	return func(err error) {
		if of, ok := errors.AsType[exportError](err); ok {
			failed(of.error)
			return
		}
		text := err.Error()
		if end := strings.IndexAny(text, ":\"'`([{"); end >= 0 {
			text = text[:end]
		}
		logger.Info("OpenTelemetry: " + strings.TrimSpace(text))
	}
}

func newTraces(ctx context.Context, out sdktrace.SpanExporter, version string) *Traces {
	named := resource.NewSchemaless(attribute.String("service.name", "sendcode"),
		attribute.String("service.version", version))
	given, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithFromEnv())
	if all, merged := resource.Merge(named, given); err == nil && merged == nil {
		named = all // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence
	} else {
		otel.Handle(errors.New("OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME are not used"))
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(redactingExporter{out}), sdktrace.WithResource(named))
	return &Traces{p, p.Tracer("sendcode")}
}

// Close exports the spans that have ended, and drops all other spans. If ctx ends first, Close
// stops exporting.
func (t *Traces) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// exporterConfigured reports whether the variables name an exporter that this program has, or the
// endpoint of one. If a variable can't be used, problem has its name, but not its value, which may
// contain a password.
func exporterConfigured(getenv func(string) string) (on bool, problem string) {
	// first returns the name and value of the variable for traces or, if that is empty, of the
	// variable for all signals.
	first := func(what string) (name, value string) {
		for _, name = range []string{"OTEL_EXPORTER_OTLP_TRACES_" + what, "OTEL_EXPORTER_OTLP_" + what} {
			value = getenv(name)
			if value != "" {
				break
			}
		}
		return name, value
	}
	endpointName, endpoint := first("ENDPOINT")
	protocolName, protocol := first("PROTOCOL")
	u, err := url.Parse(endpoint)
	exporter := getenv("OTEL_TRACES_EXPORTER")
	switch {
	case strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true"), exporter == "none", exporter == "" && endpoint == "":
		return false, ""
	case exporter != "" && exporter != "otlp":
		return false, "OTEL_TRACES_EXPORTER is neither otlp nor none"
	case protocol != "" && protocol != "http/protobuf" && protocol != "http/json":
		return false, protocolName + " is neither http/protobuf nor http/json"
	case endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https"):
		return false, endpointName + " is no http or https URL"
	}
	return true, ""
}

// redactedLog logs the messages of OpenTelemetry's libraries without attributes, because an
// attribute may contain a secret from an environment variable.
type redactedLog struct{ slog.Handler }

// Enabled implements slog.Handler. The libraries log warnings one level below slog.LevelInfo.
func (r redactedLog) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo-1 && r.Handler.Enabled(ctx, slog.LevelInfo)
}

// Handle implements slog.Handler.
func (r redactedLog) Handle(ctx context.Context, line slog.Record) error {
	return r.Handler.Handle(ctx, slog.NewRecord(line.Time, slog.LevelInfo, "OpenTelemetry: "+line.Message, 0))
}

// WithAttrs implements slog.Handler.
func (r redactedLog) WithAttrs([]slog.Attr) slog.Handler { return r }

// WithGroup implements slog.Handler.
func (r redactedLog) WithGroup(string) slog.Handler { return r }

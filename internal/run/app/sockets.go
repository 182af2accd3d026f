package app

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"

	"sendcode/internal/http/server"
)

// firstPassedSocket is the file descriptor of the first socket that systemd passes
// (https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html).
var firstPassedSocket = 3

// passedSockets returns the ports that systemd has opened for this process, by socket activation;
// none if it has opened none. They stay open while the service restarts.
func passedSockets() (all []net.Listener, err error) {
	n, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	for fd := firstPassedSocket; fd < firstPassedSocket+n; fd++ {
		file := os.NewFile(uintptr(fd), "passed socket")
		port, err := net.FileListener(file) // it has a duplicate of the descriptor
		if err = errors.Join(err, file.Close()); err != nil {
			return all, fmt.Errorf("the socket that systemd passed as %d is none: %w", fd, err)
		}
		tcp, ok := port.(*net.TCPListener)
		if !ok {
			return all, fmt.Errorf("the socket %s that systemd passed is none of TCP: write ListenStream=<address>:<port>", port.Addr())
		}
		all = append(all, server.PassedListener{TCPListener: tcp})
	}
	return all, nil
}

// listen takes the socket with the address's port out of passed and returns it, or else opens the address.
func listen(address string, passed *[]net.Listener) (net.Listener, error) {
	_, wanted, _ := net.SplitHostPort(address)
	for i, l := range *passed {
		if _, port, _ := net.SplitHostPort(l.Addr().String()); port == wanted {
			*passed = slices.Delete(*passed, i, i+1)
			return l, nil
		}
	}
	port, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("can't listen on %s: %w", address, err)
	}
	return port, nil
}

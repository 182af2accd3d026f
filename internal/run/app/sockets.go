package app

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"syscall"

	"sendcode/internal/http/server"
	"sendcode/internal/run/config"
)

// firstPassedSocket is the descriptor of the first socket that systemd passes
// (https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html).
var firstPassedSocket = 3

// passedSockets returns the ports that systemd has opened for this process by socket activation.
// They stay open while the service restarts.
func passedSockets() (all []net.Listener, err error) {
	n, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	for fd := firstPassedSocket; fd < firstPassedSocket+n; fd++ {
		file := os.NewFile(uintptr(fd), "passed socket")
		port, err := net.FileListener(file) // the listener has a duplicate of the descriptor
		if err = errors.Join(err, file.Close()); err != nil {
			return all, fmt.Errorf("the descriptor %d that systemd passed is not a socket: %w", fd, err)
		}
		tcp, ok := port.(*net.TCPListener)
		if !ok {
			return all, fmt.Errorf("the socket %s that systemd passed is not a TCP socket: write ListenStream=<address>:<port>", port.Addr())
		}
		all = append(all, server.InheritedListener{TCPListener: tcp})
	}
	return all, nil
}

// listen takes the socket with the port of the address out of passed, if there is one, and prefers
// one with the same IP address. Otherwise it opens the address itself. It returns an error if the
// socket is open to more machines than the address allows.
func listen(address string, passed *[]net.Listener) (net.Listener, error) {
	wanted, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("can't listen on %s: %w", address, err)
	}
	found := slices.IndexFunc(*passed, func(l net.Listener) bool { return addrOf(l).Port == wanted.Port && addrOf(l).IP.Equal(wanted.IP) })
	if found < 0 {
		found = slices.IndexFunc(*passed, func(l net.Listener) bool { return addrOf(l).Port == wanted.Port })
	}
	var port net.Listener
	if found >= 0 {
		port = (*passed)[found]
		*passed = slices.Delete(*passed, found, found+1)
	} else if port, err = net.Listen("tcp", address); errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("can't listen on %s: %w; end the program that has the port, or choose another port "+
			"with SENDCODE_ADDR, SENDCODE_ADMIN_ADDR or --debug-addr", address, err)
	} else if err != nil {
		return nil, fmt.Errorf("can't listen on %s: %w", address, err)
	}
	own, every := addrOf(port).IP, wanted.IP == nil || wanted.IP.IsUnspecified()
	if !own.IsLoopback() && (!config.RequiresHTTPS(address) || !every && !own.Equal(wanted.IP)) {
		return nil, errors.Join(port.Close(), fmt.Errorf("more machines can reach the socket %s than the setting %s allows: "+
			"correct the setting, or ListenStream of systemd", port.Addr(), address))
	}
	return port, nil
}

func addrOf(l net.Listener) *net.TCPAddr { return l.Addr().(*net.TCPAddr) }

// notifySystemd tells systemd the state of this process, if its unit has Type=notify
// (https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html).
func notifySystemd(state string) error {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", address)
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
}

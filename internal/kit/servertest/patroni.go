package servertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"sendcode/tools/ensure/locate"
)

const patroniPassword = "a-password-of-the-tests"

// PatroniCluster is three nodes of Postgres under Patroni, which keeps their state in an etcd.
type PatroniCluster struct {
	Nodes [3]*PatroniNode
	etcd  *server
}

// PatroniNode is one Patroni with its Postgres. Clients reach Postgres and Patroni directly. The
// node reaches etcd, and the other nodes reach this one, by links that CutOff cuts.
type PatroniNode struct {
	*server        // Patroni; Close also stops Postgres
	Name           string
	port, restPort int
	data           string
	links          []*toxiproxy.Proxy
	environment    []string
}

// Patroni starts three nodes for one test, with the file patroni.yml of the directory
// deploy/patroni, and closes them afterwards. It returns when one node leads and the others follow,
// one of them synchronously.
func Patroni(t testing.TB, deploy string) *PatroniCluster {
	t.Helper()
	bin, err := locate.Postgres.Find()
	mustOrSkip(t, err)
	own, err := postgresOwner()
	mustOrSkip(t, err)
	program := mustFind(t, locate.Patroni)
	text, err := os.ReadFile(filepath.Join(deploy, "patroni.yml"))
	mustOrSkip(t, err)
	c := &PatroniCluster{etcd: startEtcd(t)}
	for i := range c.Nodes {
		c.Nodes[i] = newPatroniNode(t, program, own, fmt.Sprintf("db%d", i+1), string(text), bin, c.etcd.Addr())
	}
	for i, n := range c.Nodes {
		closeAfterTest(t, n, n.startOrClose(t.Context()))
		if i == 0 {
			Await(t, "a first leader", func() bool { return c.Leader(t.Context()) != nil })
		}
	}
	Await(t, "nodes that follow", func() bool { return c.CheckHealthy(t.Context()) == nil })
	for _, statement := range []string{
		fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", role, patroniPassword), "CREATE DATABASE " + database + " OWNER " + role,
	} {
		mustOrSkip(t, execute(t.Context(), c.url("postgres", "postgres"), statement))
	}
	return c
}

func startEtcd(t testing.TB) *server {
	t.Helper()
	s, program := newServer(t, locate.Etcd, syscall.SIGKILL)
	client, peer := "http://"+s.Addr(), "http://127.0.0.1:"+strconv.Itoa(FreePort(t))
	s.command = func() *exec.Cmd {
		return exec.Command(program, "--data-dir", filepath.Join(s.place.dir, "etcd"), "--listen-client-urls", client,
			"--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", "default="+peer)
	}
	s.probe = func(ctx context.Context) error { return status(ctx, http.MethodGet, client+"/health") }
	return closeAfterTest(t, s, s.startOrClose(t.Context()))
}

func newPatroniNode(t testing.TB, program string, own owner, name, text, bin, etcd string) *PatroniNode {
	t.Helper()
	place, err := claim()
	mustOrSkip(t, err)
	n := &PatroniNode{
		server: &server{place: place, stopSignal: syscall.SIGTERM}, Name: name, // SIGTERM: it stops Postgres first
		port: place.port, restPort: FreePort(t), data: filepath.Join(place.dir, "data"),
		environment: []string{
			"PATRONI_SUPERUSER_PASSWORD=" + patroniPassword, "PATRONI_REPLICATION_PASSWORD=" + patroniPassword, "HOME=" + place.dir,
		},
	}
	through := func(what, to string) (addr string) {
		link := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), name+what,
			"127.0.0.1:"+strconv.Itoa(FreePort(t)), to)
		mustOrSkip(t, link.Start())
		t.Cleanup(link.Stop)
		n.links = append(n.links, link)
		return link.Listen
	}
	localAddr := func(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
	for _, edit := range [][2]string{
		{"name: db1", "name: " + name},
		{"  listen: 10.0.0.21:8008", "  listen: " + localAddr(n.restPort)},
		{"  connect_address: 10.0.0.21:8008", "  connect_address: " + through("rest", localAddr(n.restPort))},
		// Without use_proxies, Patroni would ask etcd for etcd's own address, and bypass the link.
		{"hosts: 10.0.0.21:2379,10.0.0.22:2379,10.0.0.23:2379", "hosts: " + through("etcd", etcd) + "\n  use_proxies: true"},
		{"  listen: 10.0.0.21:5432", "  listen: " + localAddr(n.port)},
		{"  connect_address: 10.0.0.21:5432", "  connect_address: " + through("postgres", localAddr(n.port))},
		{"/var/lib/postgresql/15/sendcode", n.data},
		{"/usr/lib/postgresql/15/bin", bin + "\n  parameters: {unix_socket_directories: '', dynamic_shared_memory_type: mmap}"},
		{"10.0.0.21/32", "127.0.0.1/32"},
		{"hostssl sendcode sendcode_owner,sendcode_app 10.0.0.0/24", "host " + database + " " + role + " 127.0.0.1/32"},
	} {
		if !strings.Contains(text, edit[0]) {
			t.Fatalf("patroni.yml has no %q", edit[0])
		}
		text = strings.ReplaceAll(text, edit[0], edit[1])
	}
	file := place.write(t, "patroni.yml", text)
	mustOrSkip(t, errors.Join(own.give(place.dir), own.give(file)))
	n.command = func() *exec.Cmd {
		cmd := own.command(place.dir, program, file)
		cmd.Env = append(cmd.Env, n.environment...)
		return cmd
	}
	n.probe = func(ctx context.Context) error { // 200 while Postgres runs
		return status(ctx, http.MethodOptions, "http://"+localAddr(n.restPort)+"/health")
	}
	return n
}

// status returns an error unless the server answers 200. Patroni answers OPTIONS without a body.
func status(ctx context.Context, method, url string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if err := a.Body.Close(); err != nil || a.StatusCode != http.StatusOK {
		return errors.Join(err, fmt.Errorf("%s: %s", url, a.Status))
	}
	return nil
}

// URL returns the URL of the database, with all nodes. Its role is not a superuser.
func (c *PatroniCluster) URL() string { return c.url(role, database) }

// Through returns the URL of the database behind a server at addr that forwards to the leader, such
// as HAProxy.
func (c *PatroniCluster) Through(addr string) string {
	return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable&connect_timeout=2", role, patroniPassword, addr, database)
}

func (c *PatroniCluster) url(user, name string) string {
	var hosts []string
	for _, n := range c.Nodes {
		hosts = append(hosts, n.Addr())
	}
	return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable&target_session_attrs=read-write&connect_timeout=2",
		user, patroniPassword, strings.Join(hosts, ","), name)
}

// HAProxy starts a HAProxy in front of the nodes for one test, with the file haproxy.cfg of the
// directory deploy. It returns HAProxy's address.
func (c *PatroniCluster) HAProxy(t testing.TB, deploy string) (addr string) {
	t.Helper()
	p := HAProxy
	p.edits = [][2]string{{"127.0.0.1:5432", "127.0.0.1:PORT"}}
	for i, n := range c.Nodes {
		p.edits = append(p.edits, [2]string{fmt.Sprintf("10.0.0.2%d:5432 port 8008", i+1), fmt.Sprintf("%s port %d", n.Addr(), n.restPort)})
	}
	return proxy(t, p, deploy).Addr()
}

func (n *PatroniNode) is(ctx context.Context, what string) bool {
	return status(ctx, http.MethodOptions, fmt.Sprintf("http://127.0.0.1:%d/%s", n.restPort, what)) == nil
}

// Leader returns the node that leads according to its Patroni, or nil.
func (c *PatroniCluster) Leader(ctx context.Context) *PatroniNode {
	for _, n := range c.Nodes {
		if n.is(ctx, "primary") {
			return n
		}
	}
	return nil
}

// CheckHealthy returns nil if one node leads, and the others follow, one of them synchronously.
func (c *PatroniCluster) CheckHealthy(ctx context.Context) error {
	leaders, replicas, synchronous := 0, 0, 0
	for _, n := range c.Nodes {
		for what, count := range map[string]*int{"primary": &leaders, "replica?lag=1MB": &replicas, "synchronous": &synchronous} {
			if n.is(ctx, what) {
				*count++
			}
		}
	}
	if leaders != 1 || replicas != len(c.Nodes)-1 || synchronous != 1 {
		return fmt.Errorf("%d nodes lead, %d follow, %d of them synchronously", leaders, replicas, synchronous)
	}
	return nil
}

// SwitchOver makes the leader hand over to a node that Patroni chooses, and returns after the
// change.
func (c *PatroniCluster) SwitchOver(ctx context.Context) error {
	leader := c.Leader(ctx)
	if leader == nil {
		return errors.New("no node leads")
	}
	body, err := json.Marshal(map[string]string{"leader": leader.Name})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/switchover", leader.restPort),
		strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if err := a.Body.Close(); err != nil || a.StatusCode != http.StatusOK {
		return errors.Join(err, fmt.Errorf("switchover: %s", a.Status))
	}
	return nil
}

// KillPostgres kills the node's Postgres. Patroni then starts it again. If another node has taken
// over by then, this node follows that node.
func (n *PatroniNode) KillPostgres() error {
	pid := n.Postmaster()
	if pid == 0 {
		return errors.New(n.Name + " runs no Postgres")
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// Postmaster returns the process ID in the file of the node's Postgres, or 0. After a kill the file
// stays until the next start.
func (n *PatroniNode) Postmaster() (pid int) {
	text, _ := os.ReadFile(filepath.Join(n.data, "postmaster.pid")) // no file: 0
	line, _, _ := strings.Cut(string(text), "\n")
	pid, _ = strconv.Atoi(line)
	return pid
}

// Kill kills the node's Patroni and its Postgres, as if the machine had crashed and its disk had
// survived. Start lets the node join again.
func (n *PatroniNode) Kill() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.process.Kill()
	return n.KillPostgres()
}

// CutOff cuts the node off from etcd and from the other nodes. Clients still reach it.
func (n *PatroniNode) CutOff() {
	for _, link := range n.links {
		link.Stop()
	}
}

// Reconnect connects a node again after CutOff.
func (n *PatroniNode) Reconnect() error {
	var errs []error
	for _, link := range n.links {
		errs = append(errs, link.Start())
	}
	return errors.Join(errs...)
}

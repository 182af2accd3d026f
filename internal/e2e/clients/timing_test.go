package clients

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
)

// timed are answers whose time must not depend on what a stranger must not learn.
type timed struct {
	name   string
	status int
	least  float64                    // a difference that matters, as a part of the usual time
	known  func(i int) apptest.Answer // for a recipient or a verification that there is
	other  func(i int) apptest.Answer // for one that there is not
	usual  time.Duration              // of the last round
}

const (
	pairs       = 100
	significant = 0.001 // of all ways to deal the two times of each pair
	rounds      = 3     // a difference that is there shows in each

	ofRecipients = 0.1
	// An ID has 128 random bits and more, so who tries one that there is has been given it. That a row is read for it may show.
	ofVerifications = 1
)

// difference is by how much known ones take longer, as a part of what others take, and how seldom chance alone makes as much of it:
// the two times of each pair are dealt out anew, since without a difference either could be either's. What is compared are the
// lowest fifths: a busy machine makes times longer, hardly ever shorter.
func difference(known, other []time.Duration) (part, chance float64) {
	random := rand.New(rand.NewPCG(1, 2))
	seen := lowest(known) - lowest(other)
	const deals = 2000
	as := 0
	a, b := slices.Clone(known), slices.Clone(other)
	for range deals {
		for i := range a {
			if random.IntN(2) == 0 {
				a[i], b[i] = b[i], a[i]
			}
		}
		if (lowest(a) - lowest(b)).Abs() >= seen.Abs() {
			as++
		}
	}
	return float64(seen) / float64(lowest(other)), float64(as) / deals
}

func lowest(all []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(all))[len(all)/5]
}

// tells reports whether the times of a round tell known ones from others. Its pairs are its own, in an order that chance gives.
func (x *timed) tells(s *apptest.Stack, round int) bool {
	s.Helper()
	random := rand.New(rand.NewPCG(3, uint64(round)))
	var times [2][]time.Duration
	for i := range pairs {
		first := random.IntN(2)
		for _, which := range []int{first, 1 - first} {
			ask := []func(int) apptest.Answer{x.known, x.other}[which]
			began := time.Now()
			a := ask(round*pairs + i)
			times[which] = append(times[which], time.Since(began))
			if a.StatusCode != x.status {
				s.Fatalf("%s: %d %s", x.name, a.StatusCode, a.Raw)
			}
		}
	}
	part, chance := difference(times[0], times[1])
	x.usual = lowest(times[1])
	s.Logf("%s: known ones take %+.1f %% longer, chance %.4f", x.name, 100*part, chance)
	return part >= x.least && chance <= significant || part <= -x.least && chance <= significant
}

// always is a difference that shows in each round, as one does that is there; once is one that shows at all.
func (x *timed) always(s *apptest.Stack) bool {
	for round := range rounds {
		if !x.tells(s, round) {
			return false
		}
	}
	return true
}

func (x *timed) once(s *apptest.Stack) bool {
	for round := range rounds {
		if x.tells(s, round) {
			return true
		}
	}
	return false
}

// strangers are two apps and rules that refuse nothing but what a test wants refused: the purpose tight lets each address in once.
func strangers(s *apptest.Stack) *apptest.Stack {
	s.Helper()
	file := filepath.Join(s.TempDir(), "sendcode.yaml")
	const wide = "    - {name: person, scope: recipient, limit: 1000, window: 1h}\n    - {name: wider, scope: network, limit: 100000, window: 1h}\n"
	text := "requests_per_minute: 0\npolicies:\n  default:\n" + wide + "    - {name: address, scope: ip, limit: 100000, window: 1h}\n  tight:\n" + wide + "    - {name: address, scope: ip, limit: 1, window: 1h}\n" +
		"purposes: {default: {}, tight: {policy: tight}}\napps:\n" + fmt.Sprintf("  - {name: default, origins: [\"https://shop.example\"], keys: [{id: web, kind: public, sha256: %x}]}\n  - {name: another, keys: [{id: k1, kind: secret, sha256: %x}]}\n",
		sha256.Sum256([]byte(apptest.PublicKey)), sha256.Sum256([]byte(apptest.AnotherKey)))
	apptest.Must(s.T, os.WriteFile(file, []byte(text), 0o600))
	s.Env["SENDCODE_CONFIG"] = file
	return s
}

func answersToStrangers(s *apptest.Stack) []timed {
	s.Helper()
	send := func(purpose, to string, key string) apptest.Answer {
		return s.Do(0, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"purpose":%q,"locale":"en"}`, to, purpose), apptest.As(key))
	}
	var ids []string
	for i := range rounds * pairs { // a back end has asked for these
		for _, purpose := range []string{"default", "tight"} {
			a := send(purpose, fmt.Sprintf("known%d@%s.example", i, purpose), apptest.APIKey)
			if a.StatusCode != http.StatusAccepted {
				s.Fatalf("%d %s", a.StatusCode, a.Raw)
			}
			ids = append(ids, a.ID)
		}
	}
	if a := send("tight", "first@tight.example", apptest.PublicKey); a.StatusCode != http.StatusAccepted {
		s.Fatalf("%d %s", a.StatusCode, a.Raw)
	}
	unknown := func(i int) string {
		id := []byte(ids[i])
		slices.Reverse(id)
		return string(id)
	}
	get := func(id string) apptest.Answer {
		return s.Do(0, http.MethodGet, "/v1/verifications/"+id, "", apptest.As(apptest.AnotherKey))
	}
	check := func(id string) apptest.Answer {
		return s.Do(0, http.MethodPost, "/v1/verifications/"+id+"/check", `{"code":"123456"}`, apptest.As(apptest.AnotherKey))
	}
	return []timed{
		{name: "a browser's send", status: http.StatusAccepted, least: ofRecipients,
			known: func(i int) apptest.Answer {
				return send("default", fmt.Sprintf("known%d@default.example", i), apptest.PublicKey)
			},
			other: func(i int) apptest.Answer {
				return send("default", fmt.Sprintf("other%d@default.example", i), apptest.PublicKey)
			}},
		{name: "a refused browser", status: http.StatusTooManyRequests, least: ofRecipients,
			known: func(i int) apptest.Answer {
				return send("tight", fmt.Sprintf("known%d@tight.example", i), apptest.PublicKey)
			},
			other: func(i int) apptest.Answer {
				return send("tight", fmt.Sprintf("other%d@tight.example", i), apptest.PublicKey)
			}},
		{name: "a look at another app's verification", status: http.StatusNotFound, least: ofVerifications,
			known: func(i int) apptest.Answer { return get(ids[i]) }, other: func(i int) apptest.Answer { return get(unknown(i)) }},
		{name: "a check of another app's verification", status: http.StatusNotFound, least: ofVerifications,
			known: func(i int) apptest.Answer { return check(ids[i]) }, other: func(i int) apptest.Answer { return check(unknown(i)) }},
	}
}

// The time of an answer does not tell a stranger for whom a code was asked, or which verifications there are. Beside each it is shown
// that the measure sees one more millisecond.
func TestTimesTellNothing(t *testing.T) {
	for name, open := range apptest.Stacks {
		t.Run(name, func(t *testing.T) {
			s := strangers(open(t)).Start(1)
			for _, x := range answersToStrangers(s) {
				if x.always(s) {
					t.Errorf("the time of %s tells what there is", x.name)
				}
				known := x.known
				late := max(time.Millisecond, 2*x.usual) // on a busy machine a millisecond is nothing
				x.name += fmt.Sprintf(", %v later", late)
				x.known = func(i int) apptest.Answer { defer apptest.After(late); return known(i) }
				if !x.once(s) {
					t.Errorf("%s is not seen", x.name)
				}
			}
		})
	}
}

package smtp_test

import (
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/failover"
	"sendcode/internal/parts"
)

// inTenSeconds gives every answer late.
func inTenSeconds() (s smtptest.Script) {
	for _, stage := range []smtptest.Stage{smtptest.Greet, smtptest.Hello, smtptest.Mail, smtptest.Rcpt, smtptest.Data, smtptest.Dot} {
		s.Rules = append(s.Rules, smtptest.Rule{Stage: stage, Delay: 10 * time.Second})
	}
	return s
}

// TestPaceWithOneSlowServer: whatever the slow one does, the other's pace is the pace of the whole.
func TestPaceWithOneSlowServer(t *testing.T) {
	const mails = 1000
	steady := misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: 100 * time.Millisecond})
	pace := func(t *testing.T, slow *smtptest.Script) (took time.Duration, got int) {
		parts.Bubble(t, func(t *testing.T) {
			healthy := smtptest.New(t, steady)
			servers, all := smtp.Servers{piped(t, healthy)}, []*smtptest.Server{healthy}
			if slow != nil {
				first := smtptest.New(t, *slow)
				servers, all = smtp.Servers{piped(t, first), servers[0]}, append(all, first)
			}
			began := time.Now()
			go func() {
				for len(healthy.Messages()) < mails-100 {
					time.Sleep(10 * time.Millisecond)
				}
				took = time.Since(began)
			}()
			if failures := post(t, servers, 1, mails); failures != nil {
				t.Fatalf("%d failures: %v", len(failures), failures[0])
			}
			allOnce(t, mails, all...)
			got = len(healthy.Messages())
		})
		return took, got
	}
	late := misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: 10 * time.Second})
	every := inTenSeconds()
	alone, _ := pace(t, nil)
	for name, slow := range map[string]*smtptest.Script{"after the dot": &late, "every answer": &every} {
		took, got := pace(t, slow)
		t.Logf("alone %v, beside a slow one (%s) %v for 900 of %d mails, %d by the healthy one", alone, name, took, mails, got)
		if took > alone+6*time.Second || got < mails-30 {
			t.Errorf("%s: %v instead of %v; the healthy server got %d of %d", name, took, alone, got, mails)
		}
	}
}

// TestSlowButAlone: slowness is held against a server only while another one is up.
func TestSlowButAlone(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		slow := smtptest.New(t, inTenSeconds())
		servers := smtp.Servers{piped(t, slow)}
		if failures := post(t, servers, 1, 16); failures != nil || !servers.Health()[0].Up {
			t.Errorf("%v, %+v", failures, servers.Health())
		}
		allOnce(t, 16, slow)
	})
	parts.Bubble(t, func(t *testing.T) {
		servers, first, second := pair(t, inTenSeconds(), inTenSeconds())
		if failures := post(t, servers, 1, 64); failures != nil {
			t.Errorf("%v", failures)
		}
		allOnce(t, 64, first, second)
	})
}

// TestSlowOneAfterTheOther: an answer that comes at last does not undo what was held against the server.
func TestSlowOneAfterTheOther(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		servers, first, second := pair(t, misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: 8 * time.Second}), smtptest.Script{})
		for n := range 4 {
			if _, err := servers.Send(t.Context(), message(n)); err != nil {
				t.Fatal(err)
			}
		}
		if len(first.Messages()) != 3 || len(second.Messages()) != 1 {
			t.Errorf("%d and %d mails, want 3 and 1", len(first.Messages()), len(second.Messages()))
		}
	})
}

// TestCrowdGoesOn: who finds every connection of a server in use waits a second, no longer, while another is up.
func TestCrowdGoesOn(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		servers, first, second := pair(t, inTenSeconds(), smtptest.Script{})
		go post(t, servers, 1, 16)
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		if n := len(second.Messages()); n != 0 {
			t.Errorf("%d mails went elsewhere at once", n)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if n := len(second.Messages()); n != 12 {
			t.Errorf("%d mails went elsewhere after a second, want 12", n)
		}
		time.Sleep(time.Minute)
		allOnce(t, 16, first, second)
	})
}

// TestWatch hears of each change once, with its reason.
func TestWatch(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		servers, first, _ := pair(t, misbehaving(smtptest.Rule{Stage: smtptest.Rcpt, Reply: blabbing("421 4.3.2")}), smtptest.Script{})
		var heard []failover.Health
		servers.Watch(func(h failover.Health) { heard = append(heard, h) })
		post(t, servers, 1, 50)
		first.SetScript(smtptest.Script{})
		time.Sleep(6 * time.Second)
		post(t, servers, 51, 50)
		if len(heard) != 2 || heard[0].Up || heard[0].Why != "rcpt: temporary: 421 4.3.2" || !heard[1].Up || heard[1].Why != "" {
			t.Errorf("heard %+v", heard)
		}
		if !heard[0].Since.Before(heard[1].Since) {
			t.Errorf("since %v, then %v", heard[0].Since, heard[1].Since)
		}
	})
}
